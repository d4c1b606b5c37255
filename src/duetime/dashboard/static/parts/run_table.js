// Runs in a table.

import { html } from "../core/view.js";
import { length } from "../core/words.js";
import { Badge, Exact, Moment } from "./basics.js";

export function lasted(run) {
  if (!run.started_at || !run.finished_at) return null;
  return (Date.parse(run.finished_at) - Date.parse(run.started_at)) / 1000;
}

export function RunTable({ runs, withTask = true }) {
  const wrong = withTask || runs.some((run) => run.error);
  return html`<div class="table dense">
  <table class="cards">
    <thead>
      <tr>
        <th scope="col">${withTask ? "Task" : "Due"}</th>
        <th scope="col">Status</th>
        ${withTask && html`<th scope="col" aria-sort="descending">Due</th>`}
        <th scope="col">Start delay</th>
        <th scope="col">Duration</th>
        <th scope="col">Attempts</th>
        ${wrong && html`<th scope="col">Error</th>`}
      </tr>
    </thead>
    <tbody>
      ${runs.map(
        (run) => html`<tr key=${run.run_id}>
          <td class=${withTask ? "wide" : "nowrap"}><a class="job-name" href="/runs/${run.run_id}">${withTask ? run.task : html`<${Exact} at=${run.due_at} />`}</a></td>
          <td><${Badge} status=${run.status} /></td>
          ${withTask && html`<td><${Moment} at=${run.due_at} /></td>`}
          <td class="nowrap">${length(run.lag)}</td>
          <td class="nowrap">${length(lasted(run))}</td>
          <td>${run.attempt + run.lost}</td>
          ${wrong && html`<td class="soft small">${run.error ? run.error.split("\n")[0].slice(0, 90) : ""}</td>`}
        </tr>`,
      )}
    </tbody>
  </table>
</div>`;
}
