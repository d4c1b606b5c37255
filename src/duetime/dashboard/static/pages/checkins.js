// Check-ins: jobs that run elsewhere and report by a URL.

import { act } from "../core/doing.js";
import { post } from "../core/http.js";
import { html } from "../core/view.js";
import { length, number } from "../core/words.js";
import { askBack } from "../parts/asking.js";
import { Badge, Moment } from "../parts/basics.js";
import { Managed } from "../parts/managed.js";

const LOOKS = { up: "ACTIVE", running: "RUNNING", new: "ENDED", paused: "PAUSED", late: "FAILED", overran: "FAILED", failed: "FAILED" };
const WORDS = { up: "Up", running: "Running", new: "Never pinged", paused: "Paused", late: "Late", overran: "Overran", failed: "Failed" };

const path = (item, verb) => `/v1/checkins/${encodeURIComponent(item.name)}/${verb}`;
const absolute = (url) => (url.startsWith("/") ? location.origin + url : url);

/** The address is a secret: the server shows it once. */
const showAddress = (answer) =>
  answer.ping_url &&
  askBack({
    title: `The address of ${answer.name}`,
    text: "Copy it now, it is not shown again. Request it when the job succeeds; with /start, /fail or an exit code after it for more.",
    secret: absolute(answer.ping_url),
    done: "Done",
  });

async function rotate(item, reload) {
  const text = "The old address stops working at once. This cannot be undone.";
  if (!(await askBack({ title: `Give ${item.name} another address?`, text, yes: "Replace the address", no: "Keep it" }))) return;
  const answer = await act(() => post(path(item, "rotate")), `Replaced the address of ${item.name}`, { then: reload });
  if (answer) await showAddress(answer);
}

function steer(item, reload) {
  const [verb, back, word] = item.paused ? ["resume", "pause", "Resumed"] : ["pause", "resume", "Paused"];
  return act(() => post(path(item, verb)), `${word} ${item.name}`, { undo: () => post(path(item, back)), then: reload });
}

const KIND = {
  title: "Check-ins",
  intro: html`Jobs that run elsewhere and report to a URL. A missing report is an alert; <a href="/notifications">subscriptions</a> say where it is sent.`,
  noun: "check-in",
  path: "/v1/checkins",
  request: "CheckInRequest",
  none: "Create one for each cron job of another machine.",
  gone: "Its address stops working.",
  columns: [
    ["Name", (item) => html`<span class="job-name">${item.name}</span><div class="soft small">${item.description || ""}</div>`, "wide"],
    ["State", (item) => html`<${Badge} status=${LOOKS[item.status]} word=${WORDS[item.status]} />`],
    ["Expects", (item) => html`<span class="small">${item.cron ? html`<code>${item.cron}</code> ${item.tz}` : `every ${length(item.every)}`}, ${length(item.grace)} late at most</span>`],
    ["Last ping", (item) => html`${item.last_ping ? `${item.last_ping}${item.exit_code === null ? "" : ` (${item.exit_code})`}` : ""} <span class="soft small"><${Moment} at=${item.last_ping_at} none="never" /></span>`],
    ["Next by", (item) => html`<${Moment} at=${item.expected_at} />`],
    ["Pings", (item) => number(item.pings)],
    ["Last report", (item) => html`<span class="small" title=${item.note || ""}>${item.text || "–"}</span>`],
  ],
  buttons: (item, reload) => html`
    <button class="tight" onClick=${() => steer(item, reload)}>${item.paused ? "Resume" : "Pause"}<span class="hidden-words"> ${item.name}</span></button>
    <button class="tight" onClick=${() => rotate(item, reload)}>New address<span class="hidden-words"> of ${item.name}</span></button>`,
  saved: showAddress,
};

export const CheckIns = ({ query }) => html`<${Managed} kind=${KIND} query=${query} />`;
