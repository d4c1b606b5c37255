// Workers: their tasks, the runs that they hold, and their leases; those that left or were lost within a day.

import { useData, useNow } from "../core/data.js";
import { get } from "../core/http.js";
import { anything } from "../core/live.js";
import { html } from "../core/view.js";
import { length, number, plural, short } from "../core/words.js";
import { Badge, Empty, Head, Loading, Meter, Moment, Wrong } from "../parts/basics.js";

const NAMED = 5;

export function Workers() {
  const options = { live: anything, every: 5000 };
  const { data, error } = useData((signal) => get("/v1/workers", {}, signal), ["workers"], options);
  // Some of them, to name: how many there are is in the answer about workers.
  const { data: runs } = useData((signal) => get("/v1/runs", { status: "RUNNING", page_size: 200 }, signal), ["running"], options);
  const held = new Map();
  (runs ? runs.items : []).forEach((run) => held.set(run.worker_id, [...(held.get(run.worker_id) || []), run]));
  return html`<${Head} title="Workers">Processes that run tasks while they renew their lease.</${Head}>
    <${Wrong} error=${error} />
    ${!data && !error && html`<${Loading} />`}
    ${data && !data.items.length && html`<div class="card"><${Empty} title="No workers.">Start one: <code>duetime worker module:app</code></${Empty}></div>`}
    <div class="workers">${data && data.items.map((worker) => html`<${Worker} key=${worker.worker_id} worker=${worker} runs=${held.get(worker.worker_id) || []} />`)}</div>
    ${data && data.past.length > 0 && html`<${Past} workers=${data.past} />`}`;
}

const Past = ({ workers }) => html`<section aria-labelledby="past" style=${{ marginTop: "24px" }}>
  <h2 id="past" style=${{ marginBottom: "10px" }}>Left or lost within a day</h2>
  <div class="table"><table class="cards">
    <thead><tr><th scope="col">Worker</th><th scope="col">State</th><th scope="col">When</th><th scope="col">Why</th><th scope="col">Its runs</th><th scope="col">Its tasks</th></tr></thead>
    <tbody>${workers.map((worker) => html`<tr key=${worker.worker_id}>
      <td><strong class="nowrap">${worker.name}</strong> <code class="small soft" title=${worker.worker_id}>${short(worker.worker_id)}</code></td>
      <td><${Badge} status=${worker.state} word=${worker.state === "LOST" ? "Lost" : "Left"} /></td>
      <td><${Moment} at=${worker.ended_at} /></td>
      <td class="small">${worker.reason}</td>
      <td class="small">${worker.held ? html`${worker.runs.map((run) => html`<div key=${run.run_id}><a href="/runs/${run.run_id}">${run.task}</a> <${Badge} status=${run.status} /></div>`)}${worker.held > worker.runs.length ? html`<div class="soft">held ${plural(worker.held, "run")}</div>` : ""}` : html`<span class="soft">held none</span>`}</td>
      <td class="small soft">${worker.tasks.slice(0, 4).join(", ")}${worker.task_count > 4 ? ` and ${number(worker.task_count - 4)} more` : ""}</td>
    </tr>`)}</tbody>
  </table></div>
</section>`;

function Worker({ worker, runs }) {
  const now = useNow();
  const left = (Date.parse(worker.lease_until) - now) / 1000;
  return html`<article class="card">
    <header>
      <h2>${worker.name}</h2>
      <${Badge} status=${worker.alive ? "ACTIVE" : "LOST"} word=${worker.alive ? "Alive" : "Lease expired"} />
    </header>
    ${worker.running == null
      ? html`<p>${plural(worker.slots, "slot")}, for all tenants</p>`
      : html`<p>${number(worker.running)} of ${plural(worker.slots, "slot")} in use</p>
          <${Meter} share=${worker.running / Math.max(1, worker.slots)} label=${`Slots in use of ${worker.name}`} />`}
    <dl class="facts" style=${{ marginTop: "16px" }}>
      <dt>Lease</dt><dd>${left > 0 ? `expires in ${length(Math.floor(left))} unless renewed` : "expired"}</dd>
      <dt>Last heartbeat</dt><dd>${length(Math.max(0, Math.floor((now - Date.parse(worker.heard_at)) / 1000)))} ago</dd>
      <dt>Version</dt><dd>${worker.version || "unknown"}</dd>
      <dt>Started</dt><dd><${Moment} at=${worker.started_at} /></dd>
      <dt>Queues</dt><dd>${worker.queues.length ? worker.queues.join(", ") : "all"}</dd>
      <dt>Tasks</dt><dd>${worker.tasks.slice(0, 6).map((task) => html`<div key=${task}><code class="small">${task}</code></div>`)}${worker.tasks.length > 6 ? `and ${worker.tasks.length - 6} more` : ""}</dd>
      <dt>Runs</dt><dd>${runs.slice(0, NAMED).map((run) => html`<div key=${run.run_id}><a href="/runs/${run.run_id}">${run.task}</a></div>`)}${Math.max(worker.running, runs.length) > Math.min(runs.length, NAMED) ? html`<a href="/runs?status=RUNNING">All running runs</a>` : runs.length ? "" : "none"}</dd>
      <dt>Id</dt><dd><code class="small" title=${worker.worker_id}>${short(worker.worker_id)}</code></dd>
    </dl>
  </article>`;
}
