// Bulk actions: what was done to many objects at once, by whom, and how far it is.

import { useData } from "../core/data.js";
import { get } from "../core/http.js";
import { may } from "../core/session.js";
import { html } from "../core/view.js";
import { Badge, Empty, Head, Loading, Moment, Wrong } from "../parts/basics.js";
import { nounOf, resultOf, stopBulk, wordOf } from "../parts/bulk.js";

const LOOKS = { running: "RUNNING", done: "SUCCEEDED", stopped: "PAUSED" };

const conditions = (bulk) => Object.entries(bulk.conditions).map(([name, value]) => `${name} = ${value}`).join(", ") || "everything";

export function BulkActionsPage() {
  const { data, error, reload } = useData((signal) => get("/v1/bulk-actions", {}, signal), ["bulk actions"], { every: 2000 });
  return html`<${Head} title="Bulk actions">Actions on everything that matched a filter. They continue on any server until they are done.</${Head}>
    <${Wrong} error=${error} />
    ${!data && !error && html`<${Loading} />`}
    ${data && !data.items.length && html`<div class="card"><${Empty} title="No bulk actions yet.">Start one on the page of jobs, runs or dead letters.</${Empty}></div>`}
    ${data && data.items.length > 0 && html`<div class="table"><table class="cards">
      <thead><tr>
        <th scope="col">Action</th><th scope="col">Conditions</th><th scope="col">Status</th><th scope="col">Result</th><th scope="col">Started</th><th scope="col">By</th>
        ${may("control") && html`<th scope="col"><span class="hidden-words">Actions</span></th>`}
      </tr></thead>
      <tbody>${data.items.map(
        (bulk) => html`<tr key=${bulk.bulk_id}>
          <td><strong>${wordOf(bulk)} ${nounOf(bulk)}</strong></td>
          <td class="soft small">${conditions(bulk)}</td>
          <td><${Badge} status=${LOOKS[bulk.status]} word=${bulk.status} /></td>
          <td class="small">${resultOf(bulk)}${bulk.failures.length > 0 && html`<details><summary>Failures</summary>${bulk.failures.map((each) => html`<div key=${each.id}><code>${each.id}</code> ${each.error}</div>`)}</details>`}</td>
          <td><${Moment} at=${bulk.created_at} /></td>
          <td class="soft">${bulk.actor}</td>
          ${may("control") && html`<td class="end">${bulk.status === "running" && html`<button class="tight" onClick=${() => stopBulk(bulk, reload)}>Stop</button>`}</td>`}
        </tr>`,
      )}</tbody>
    </table></div>`}`;
}
