// Alerts: rules about figures, and whether they hold.

import { html } from "../core/view.js";
import { number } from "../core/words.js";
import { Badge, Moment } from "../parts/basics.js";
import { Managed, named } from "../parts/managed.js";

const shown = (value) => (value === null ? "–" : Number.isInteger(value) ? number(value) : value.toFixed(2));

function About({ item }) {
  const parts = [item.queue && `queue ${item.queue}`, item.task && `task ${item.task}`, item.tag && `tag ${item.tag}`];
  return html`${item.unit}<div class="soft small">
    ${parts.filter(Boolean).join(", ")} ${item.job_id && html`<a href="/jobs/${item.job_id}">its job</a>`}
  </div>`;
}

const state = (item) => (item.paused ? ["PAUSED", "Paused"] : item.open ? ["FAILED", "Open"] : item.value === null ? ["ENDED", "Not read yet"] : ["ACTIVE", "Fine"]);

const KIND = {
  title: "Alerts",
  intro: html`A rule watches one figure, and reports when it becomes wrong and when it is right again. <a href="/notifications">Subscriptions</a> say where that is sent.`,
  noun: "alert",
  path: "/v1/alerts",
  request: "AlertRequest",
  none: "Create one, such as no success of a job for a day.",
  gone: "The figure is no longer watched.",
  columns: [
    named,
    ["Figure", (item) => html`<${About} item=${item} />`],
    ["State", (item) => html`<${Badge} status=${state(item)[0]} word=${state(item)[1]} />`],
    ["Value", (item) => html`<span class="nowrap">${shown(item.value)} <span class="soft">of ${shown(item.threshold)}</span></span>`],
    ["Last report", (item) => html`<span class="small">${item.text || "–"}</span> ${item.changed_at && html`<span class="soft small"><${Moment} at=${item.changed_at} /></span>`}`],
  ],
};

export const Alerts = ({ query }) => html`<${Managed} kind=${KIND} query=${query} />`;
