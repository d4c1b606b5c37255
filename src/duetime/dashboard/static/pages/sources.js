// Sources: places at brokers whose messages create jobs.

import { act } from "../core/doing.js";
import { post } from "../core/http.js";
import { html } from "../core/view.js";
import { number, title } from "../core/words.js";
import { Badge, Exact } from "../parts/basics.js";
import { Managed } from "../parts/managed.js";

const LOOKS = { reading: "ACTIVE", waiting: "RETRYING", idle: "ENDED", paused: "PAUSED", stopped: "FAILED" };

const path = (item, verb) => `/v1/sources/${encodeURIComponent(item.name)}/${verb}`;
const place = ({ topic, stream, queue_url: url, queue }) => topic || stream || url || queue || "";

function steer(item, reload) {
  const rests = item.status === "paused" || item.status === "stopped";
  const [verb, back, word] = rests ? ["resume", "pause", "Resumed"] : ["pause", "resume", "Paused"];
  return act(() => post(path(item, verb)), `${word} ${item.name}`, { undo: () => post(path(item, back)), then: reload });
}

function Bad({ item }) {
  if (!item.bad) return "0";
  return html`<details><summary>${number(item.bad)}</summary>${item.bad_messages.map(
    (each) => html`<div class="small" key=${each.message + each.at}><code>${each.message}</code> ${each.error} <span class="soft"><${Exact} at=${each.at} /></span></div>`,
  )}</details>`;
}

const KIND = {
  title: "Sources",
  intro: "Messages of Kafka, Redis or SQS that create jobs.",
  noun: "source",
  path: "/v1/sources",
  request: "SourceRequest",
  start: { job: { task: "" } },
  none: "Create one to run a task for each message of a topic.",
  gone: "Its messages stay at the broker.",
  edits: ({ broker, job, key, on_bad, status }) => ({ broker, job, ...(key ? { key } : {}), on_bad, paused: status === "paused" }),
  columns: [
    ["Name", (item) => html`<span class="job-name">${item.name}</span><div class="soft small">${item.broker.type} ${place(item.broker)}</div>`, "wide"],
    ["State", (item) => html`<${Badge} status=${LOOKS[item.status]} word=${title(item.status.toUpperCase())} /><div class="soft small">${item.reason || ""}</div>`],
    ["Received", (item) => number(item.received)],
    ["Jobs created", (item) => number(item.created)],
    ["Repeated", (item) => number(item.repeated)],
    ["Bad", (item) => html`<${Bad} item=${item} />`],
  ],
  buttons: (item, reload) => html`<button class="tight" onClick=${() => steer(item, reload)}>${item.status === "paused" || item.status === "stopped" ? "Resume" : "Pause"}<span class="hidden-words"> ${item.name}</span></button>`,
};

export const Sources = ({ query }) => html`<${Managed} kind=${KIND} query=${query} />`;
