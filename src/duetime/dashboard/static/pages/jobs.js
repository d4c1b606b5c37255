// Jobs and schedules: find them, see their last runs, control one, many or all that match.

import { go, setQuery, useData } from "../core/data.js";
import { forEach, say } from "../core/doing.js";
import { address, get, post } from "../core/http.js";
import { anything } from "../core/live.js";
import { useList } from "../core/pages.js";
import { placeIn } from "../core/place.js";
import { isScoped, may } from "../core/session.js";
import { html, useEffect, useState } from "../core/view.js";
import { moment, number, plural, title } from "../core/words.js";
import { askBack } from "../parts/asking.js";
import { Badge, Bars, Head, Moment, NoneFound, Pager, Searching, Wrong } from "../parts/basics.js";
import { BulkActions } from "../parts/bulk.js";
import { InStreams } from "../parts/in_streams.js";
import { JobButtons, nameOf } from "../parts/job_actions.js";
import { Range, rangeFrom } from "../parts/range.js";

const BY = ["search", "name", "tag", "task", "owner", "key"];
const WORDS = { search: "Anything" };
const STATUSES = ["ACTIVE", "PENDING", "RUNNING", "RETRYING", "BLOCKED", "PAUSED", "SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED", "ENDED"];
const FILTERS = [...BY, "status", "queue", "recurring", "start_time", "end_time", "fires_from", "fires_until"];

/** The API sorts by name only where nothing else selects by a label, as a scope does: docs/decisions/0044-sorted-lists.md
 * says why. */
const ORDERS = { newest: "name", name: "-name", "-name": "newest" };
const isSortable = (filter) => !isScoped() && ![...BY, "fires_from"].some((name) => filter[name]);

const filterOf = (query) => Object.fromEntries(FILTERS.filter((name) => query[name]).map((name) => [name, query[name]]));

/** As a request body takes it: not all of a query is text there. */
const typed = (filter) => (filter.recurring ? { ...filter, recurring: filter.recurring === "true" } : filter);

export const Jobs = ({ query }) => html`<${JobList} path="/jobs" query=${query} />`;
export const Schedules = ({ query }) => html`<${JobList} path="/schedules" query=${{ ...query, recurring: "true" }} />`;

/** How many schedules there are, and how many of them are paused; up to a bound. */
function Counts() {
  if (isScoped()) return "Jobs that repeat.";
  const { data } = useData(
    () => Promise.all(["ACTIVE", "PAUSED"].map((status) => post("/v1/bulk-actions/preview", { action: "cancel", jobs: { recurring: true, status } }))),
    ["schedules"],
    { every: 60000 },
  );
  if (!data) return "Jobs that repeat.";
  const [active, paused] = data.map((found) => `${number(found.matching)}${found.complete ? "" : "+"}`);
  return html`Jobs that repeat: ${active} active, <a href="/schedules?status=PAUSED">${paused} paused</a>.`;
}

function JobList({ path, query }) {
  const only = path === "/schedules";
  const word = only ? "schedules" : "jobs";
  const filter = filterOf(query);
  const order = isSortable(filter) && query.order in ORDERS ? query.order : "newest";
  const key = JSON.stringify({ ...filter, order });
  const place = placeIn(query);
  const { cursor } = place;
  const [picked, setPicked] = useState(new Set());
  useEffect(() => setPicked(new Set()), [key, cursor]);
  const request = { ...filter, ...(order === "newest" ? {} : { order }), page_size: 50, cursor };
  const { data: page, error, reload, searching } = useList("/v1/jobs", request, ["jobs", key, cursor], { live: anything });
  const ids = page ? page.items.map((job) => job.job_id) : [];
  const { data: recent } = useData(
    (signal) => (ids.length ? get("/v1/recent-runs", { job_ids: ids.join() }, signal) : { items: [] }),
    ["recent", ids.join()],
    { live: anything },
  );
  const bars = new Map(recent ? recent.items.map((item) => [item.job_id, item.runs]) : []);
  return html`<${Head} title=${only ? "Schedules" : "Jobs"} buttons=${may("submit") && html`<a class="button main" href="/jobs/new">New job</a>`}>
      ${only ? html`<${Counts} />` : html`One-off and recurring jobs. <a href="/schedules">Schedules</a> are the recurring ones.`}
    </${Head}>
    <${Finder} path=${path} filter=${filter} />
    ${filter.fires_from && html`<${Coming} path=${path} filter=${filter} page=${page} place=${place} />`}
    ${!filter.fires_from && html`<${BulkActions} objects="jobs" filter=${typed(filter)} />`}
    <${Wrong} error=${error} />
    ${!page && !error && html`<${Searching} found=${searching} word=${word} />`}
    ${page && html`<${Table} page=${page} place=${place} bars=${bars} picked=${picked} setPicked=${setPicked} reload=${reload} filter=${filter} only=${only} order=${order} />`}
    ${page && html`<${InStreams} found=${page.in_streams} />`}
    <${Pager} page=${page} place=${place} word=${word} labels=${order === "newest" ? undefined : ["Back", "Next"]} />
    ${picked.size > 0 && html`<${Bulk} jobs=${page ? page.items.filter((job) => picked.has(job.job_id)) : []} done=${() => setPicked(new Set()) || reload()} />`}`;
}

function Finder({ path, filter }) {
  const by = BY.find((name) => filter[name]) || "search";
  const { data: queues } = useData((signal) => (isScoped() ? null : get("/v1/queues", {}, signal)), ["queues"]);
  const submit = (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.target));
    const text = given.text.trim();
    if (/^job_[0-9a-z]{26}$/.test(text)) return go(`/jobs/${text}`);
    if (/^run_[0-9a-z]{26}$/.test(text)) return go(`/runs/${text}`);
    return go(address(path, { [given.by]: text, status: given.status, queue: given.queue, ...rangeFrom(given) }));
  };
  const names = queues ? queues.items.map((queue) => queue.name) : [];
  return html`<form class="finder" role="search" onSubmit=${submit} key=${JSON.stringify(filter)}>
      <label>
        <span class="hidden-words">Find by</span>
        <select name="by">${BY.map((name) => html`<option key=${name} value=${name} selected=${name === by}>${WORDS[name] || title(name.toUpperCase())}</option>`)}</select>
      </label>
      <label>
        <span class="hidden-words">Search text</span>
        <input name="text" type="search" placeholder="Part of a name, tag, task, owner or key, or an id" defaultValue=${filter[by] || ""} />
      </label>
      <label>
        <span class="hidden-words">Status</span>
        <select name="status">
          <option value="">Any status</option>
          ${STATUSES.map((name) => html`<option key=${name} value=${name} selected=${name === filter.status}>${title(name)}</option>`)}
        </select>
      </label>
      <label>
        <span class="hidden-words">Queue</span>
        <select name="queue">
          <option value="">Any queue</option>
          ${[...new Set([...names, ...(filter.queue ? [filter.queue] : [])])].map(
            (name) => html`<option key=${name} value=${name} selected=${name === filter.queue}>${name}</option>`,
          )}
        </select>
      </label>
      ${!filter.fires_from && html`<${Range} filter=${filter} label="Due" ahead />`}
      <button>Find</button>
    </form>`;
}

/** What a cell of the calendar counts: the runs of these jobs in its time. */
function Coming({ path, filter, page, place }) {
  const whole = page && place.number === 1 && !page.next_cursor;
  const runs = whole && page.items.reduce((sum, job) => sum + job.fires, 0);
  return html`<p class="hint" role="status">
    ${whole ? `${plural(runs, "run")} of ${plural(page.items.length, "job")}` : "Jobs with a run"}${" "}
    from ${moment(filter.fires_from)} until ${moment(filter.fires_until)}. <a href=${path}>Show all</a>
  </p>`;
}

const aboutJob = (job) => `${job.schedule.sentence}${nameOf(job) === job.task ? "" : ` · ${job.task}`}`;

/** A head that sorts: by name, the other way round, and by creation again. */
function NameHead({ order, filter }) {
  if (!isSortable(filter)) return html`<th scope="col">Job</th>`;
  const sort = { name: "ascending", "-name": "descending" }[order] || "none";
  const next = ORDERS[order];
  return html`<th scope="col" aria-sort=${sort}>
    <button class="sort" onClick=${() => setQuery({ order: next === "newest" ? null : next })}>Job<span aria-hidden="true">${{ name: " ↑", "-name": " ↓" }[order] || " ↕"}</span></button>
  </th>`;
}

function Table({ page, place, bars, picked, setPicked, reload, filter, only, order }) {
  if (!page.items.length) {
    const none = Object.keys(filter).length === (only ? 1 : 0);
    const word = only ? "schedules" : "jobs";
    return html`<${NoneFound} page=${page} place=${place} word=${word} title=${none ? `There are no ${word} yet.` : `No ${word} match.`}>
      ${none ? "Create one here or with the API." : "A search finds any part of a name, tag, task, owner or key, and the beginning of an id. The other fields must match completely."}
    </${NoneFound}>`;
  }
  const steers = may("control");
  const toggle = (id) => {
    const next = new Set(picked);
    if (!next.delete(id)) next.add(id);
    setPicked(next);
  };
  const all = page.items.every((job) => picked.has(job.job_id));
  const toggleAll = () => setPicked(all ? new Set() : new Set(page.items.map((job) => job.job_id)));
  return html`<div class="table dense">
    <table class="cards">
      <thead>
        <tr>
          ${steers && html`<th scope="col" class="pick"><input type="checkbox" aria-label="Select all on this page" checked=${all} onChange=${toggleAll} /></th>`}
          <${NameHead} order=${order} filter=${filter} />
          <th scope="col">Status</th>
          <th scope="col">Last runs</th>
          ${only && html`<th scope="col">Last run</th>`}
          ${filter.fires_from && html`<th scope="col">Runs in this time</th>`}
          <th scope="col">Next run</th>
          <th scope="col">Queue</th>
          ${!only && html`<th scope="col" aria-sort=${order === "newest" ? "descending" : null}>Created</th>`}
          ${steers && html`<th scope="col"><span class="hidden-words">Actions</span></th>`}
        </tr>
      </thead>
      <tbody>
        ${page.items.map(
          (job) => html`<tr key=${job.job_id}>
            ${steers && html`<td class="pick"><input type="checkbox" aria-label=${`Select ${nameOf(job)}`} checked=${picked.has(job.job_id)} onChange=${() => toggle(job.job_id)} /></td>`}
            <td class="wide">
              <a class="job-name" href="/jobs/${job.job_id}">${nameOf(job)}</a>
              <div class="soft small line" title=${aboutJob(job)}>${aboutJob(job)}</div>
            </td>
            <td><${Badge} status=${job.status} /></td>
            <td><${Bars} runs=${bars.get(job.job_id)} none=${job.recurring ? "no runs yet" : ""} /></td>
            ${only && html`<td><${LastRun} runs=${bars.get(job.job_id)} /></td>`}
            ${filter.fires_from && html`<td>${number(job.fires)}</td>`}
            <td><${Moment} at=${job.next_run} /></td>
            <td class="soft queue">${job.queue}${job.priority === "MEDIUM" ? "" : ` · ${title(job.priority)}`}</td>
            ${!only && html`<td class="soft"><${Moment} at=${job.created_at} /></td>`}
            ${steers && html`<td class="end"><${JobButtons} job=${job} then=${reload} tight /></td>`}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

function LastRun({ runs }) {
  if (!runs || !runs.length) return html`<span class="soft">–</span>`;
  return html`<a href="/runs/${runs[0].run_id}"><${Badge} status=${runs[0].status} /></a> <span class="soft small"><${Moment} at=${runs[0].due_at} /></span>`;
}

const RUNS = { does: (jobs) => `Run ${jobs} now`, means: "Each job gets an extra run beside its schedule.", yes: "Run them" };
const CANCELS = { does: (jobs) => `Cancel ${jobs}`, means: "The jobs get no further runs.", yes: "Cancel them" };
const BULK = [
  { verb: "pause", word: "Pause", done: "Paused", back: "resume" },
  { verb: "resume", word: "Resume", done: "Resumed", back: "pause" },
  { verb: "trigger", word: "Run now", done: "Started", asks: RUNS },
  { verb: "cancel", word: "Cancel", done: "Cancelled", danger: true, asks: CANCELS },
];

function Bulk({ jobs, done }) {
  const [progress, setProgress] = useState(null);
  const run = async (what) => {
    if (what.asks) {
      const { does, means, yes } = what.asks;
      const text = `${means} This cannot be undone.`;
      if (!(await askBack({ title: `${does(plural(jobs.length, "job"))}?`, text, yes, no: "Keep them" }))) return;
    }
    const each = (verb) => (job) => post(`/v1/jobs/${job.job_id}/${verb}`);
    const failed = await forEach(jobs, each(what.verb), (at, of) => setProgress(`${what.word}: ${at} of ${of}`));
    const good = jobs.filter((job) => !failed.some((one) => one.item === job));
    const undo = what.back && good.length ? () => forEach(good, each(what.back), () => {}).then(done) : null;
    say(`${what.done} ${plural(good.length, "job")}`, { undo });
    if (failed.length) say(`${plural(failed.length, "job")} failed: ${failed[0].error.message}`, { bad: true });
    setProgress(null);
    done();
  };
  return html`<div class="bulk" role="region" aria-label="Selected jobs">
    <strong aria-live="polite">${progress || `${number(jobs.length)} selected`}</strong>
    ${BULK.map(
      (what) => html`<button key=${what.verb} class="tight ${what.danger ? "danger" : ""}" disabled=${Boolean(progress)} onClick=${() => run(what)}>${what.word}</button>`,
    )}
    <button class="tight plain" onClick=${done}>Clear</button>
  </div>`;
}
