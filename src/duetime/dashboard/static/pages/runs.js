// Runs: current and past ones, newest first.

import { go } from "../core/data.js";
import { address } from "../core/http.js";
import { anything } from "../core/live.js";
import { useList } from "../core/pages.js";
import { placeIn } from "../core/place.js";
import { html } from "../core/view.js";
import { title } from "../core/words.js";
import { Head, NoneFound, Pager, Searching, Wrong } from "../parts/basics.js";
import { BulkActions } from "../parts/bulk.js";
import { InStreams } from "../parts/in_streams.js";
import { Range, rangeFrom } from "../parts/range.js";
import { RunTable } from "../parts/run_table.js";

const STATUSES = ["RUNNING", "PENDING", "RETRYING", "BLOCKED", "SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"];

export function Runs({ query }) {
  const filter = { status: query.status, task: query.task, queue: query.queue, owner: query.owner, start_time: query.start_time, end_time: query.end_time };
  const key = JSON.stringify(filter);
  const place = placeIn(query);
  const { cursor } = place;
  const { data: page, error, searching } = useList("/v1/runs", { ...filter, page_size: 50, cursor }, ["runs", key, cursor], { live: anything });
  const submit = (event) => {
    event.preventDefault();
    const { status, task, queue, owner, ...span } = Object.fromEntries(new FormData(event.target));
    go(address("/runs", { status, task, queue, owner, ...rangeFrom(span) }));
  };
  return html`<${Head} title="Runs">Newest first, by due time.</${Head}>
    <form class="finder" role="search" onSubmit=${submit} key=${key}>
      <label>
        <span class="hidden-words">Status</span>
        <select name="status">
          <option value="">Any status</option>
          ${STATUSES.map((name) => html`<option key=${name} value=${name} selected=${name === filter.status}>${title(name)}</option>`)}
        </select>
      </label>
      <label><span class="hidden-words">Task</span><input name="task" type="search" placeholder="Task" defaultValue=${filter.task || ""} /></label>
      <label><span class="hidden-words">Queue</span><input name="queue" type="search" placeholder="Queue" defaultValue=${filter.queue || ""} /></label>
      <label><span class="hidden-words">Owner</span><input name="owner" type="search" placeholder="Owner" defaultValue=${filter.owner || ""} /></label>
      <${Range} filter=${filter} label="Due" />
      <button>Find</button>
    </form>
    <${BulkActions} objects="runs" filter=${Object.fromEntries(Object.entries(filter).filter(([, value]) => value))} />
    <${Wrong} error=${error} />
    ${!page && !error && html`<${Searching} found=${searching} word="runs" />`}
    ${page && page.items.length > 0 && html`<${RunTable} runs=${page.items} />`}
    ${page && !page.items.length && html`<${NoneFound} page=${page} place=${place} word="runs" />`}
    ${page && html`<${InStreams} found=${page.in_streams} />`}
    <${Pager} page=${page} place=${place} word="runs" />`;
}
