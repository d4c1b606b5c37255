// Notifications: which events are sent where, and what became of them.

import { useData } from "../core/data.js";
import { act } from "../core/doing.js";
import { get, post } from "../core/http.js";
import { anything } from "../core/live.js";
import { html } from "../core/view.js";
import { Badge, Empty, Loading, Wrong } from "../parts/basics.js";
import { Managed, named } from "../parts/managed.js";
import { RunTable } from "../parts/run_table.js";

const QUEUE = "duetime.notifications";

const test = (item, reload) =>
  act(() => post(`/v1/subscriptions/${encodeURIComponent(item.name)}/test`), `Sending a test to ${item.name}: see the deliveries`, { then: reload });

const KIND = {
  title: "Notifications",
  intro: "A subscription sends events and alerts to a webhook, Slack or an email address.",
  noun: "subscription",
  path: "/v1/subscriptions",
  request: "SubscriptionRequest",
  none: "Create one to hear of dead letters, late runs and alerts.",
  gone: "Nothing more is sent. Notifications that are under way still arrive.",
  columns: [
    named,
    ["To", (item) => html`${item.to.type} <code class="small">${item.to.url || item.to.address}</code>`],
    ["Topics", (item) => html`<span class="small">${item.topics.join(", ")}</span>`],
    ["Only", (item) => html`<span class="soft small">${[...item.queues, ...item.tags, ...item.job_ids].join(", ") || "everything"}</span>`],
    ["State", (item) => html`<${Badge} status=${item.paused ? "PAUSED" : "ACTIVE"} />`],
  ],
  buttons: (item, reload) => html`<button class="tight" onClick=${() => test(item, reload)}>Send test<span class="hidden-words"> to ${item.name}</span></button>`,
};

export const Notifications = ({ query }) => html`<${Managed} kind=${KIND} query=${query}><${Deliveries} /></${Managed}>`;

function Deliveries() {
  const { data, error } = useData((signal) => get("/v1/runs", { queue: QUEUE, page_size: 20 }, signal), ["deliveries"], { live: anything });
  return html`<section aria-labelledby="deliveries">
    <h2 id="deliveries" class="above">Deliveries, newest first</h2>
    <${Wrong} error=${error} />
    ${!data && !error && html`<${Loading} />`}
    ${data && !data.items.length && html`<div class="card"><${Empty} title="Nothing was sent lately." /></div>`}
    ${data && data.items.length > 0 && html`<${RunTable} runs=${data.items} />
      <p class="hint"><a href="/runs?queue=${QUEUE}">All deliveries</a>, <a href="/jobs?queue=${QUEUE}">by subscription</a>. A failed one is retried for half a day, then it is a dead letter.</p>`}
  </section>`;
}
