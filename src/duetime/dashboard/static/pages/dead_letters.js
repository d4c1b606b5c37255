// Dead letters: runs that used all their attempts, grouped by error or as a list; replayed or discarded together.

import { go, setQuery, useData } from "../core/data.js";
import { act, complain } from "../core/doing.js";
import { address, get, post } from "../core/http.js";
import { ofKind } from "../core/live.js";
import { useList } from "../core/pages.js";
import { placeIn } from "../core/place.js";
import { isScoped, may } from "../core/session.js";
import { html } from "../core/view.js";
import { number } from "../core/words.js";
import { askBack } from "../parts/asking.js";
import { BulkActions, BulkPanel, actionsOn, useBulk } from "../parts/bulk.js";
import { Badge, Empty, Head, Loading, Moment, NoneFound, Pager, Searching, Segments, Wrong } from "../parts/basics.js";
import { Range, rangeFrom } from "../parts/range.js";

const DIED = ofKind("failed", "fired", "submitted");

export function DeadLetters({ query }) {
  const view = query.view === "list" || isScoped() ? "list" : "groups";
  const pick = !isScoped() && html`<${Segments} label="View" value=${view} onPick=${(name) => go(name === "list" ? "/dead-letters?view=list" : "/dead-letters")} choices=${[["groups", "By error"], ["list", "List"]]} />`;
  return html`<${Head} title="Dead letters" buttons=${pick}>Runs that used all their attempts, kept for inspection and replay.</${Head}>
    ${view === "list" ? html`<${List} query=${query} />` : html`<${Groups} />`}`;
}

const FILTERS = ["task", "queue", "error", "fingerprint", "start_time", "end_time"];

function List({ query }) {
  const filter = Object.fromEntries(FILTERS.filter((name) => query[name]).map((name) => [name, query[name]]));
  const key = JSON.stringify(filter);
  const place = placeIn(query);
  const { cursor } = place;
  const { data: page, error, reload, searching } = useList("/v1/dead-letters", { ...filter, page_size: 50, cursor }, ["dead", key, cursor], { live: DIED });
  const submit = (event) => {
    event.preventDefault();
    const { task, queue, error: text, ...span } = Object.fromEntries(new FormData(event.target));
    go(address("/dead-letters", { view: "list", task, queue, error: text, ...rangeFrom(span) }));
  };
  const replay = (run) => act(() => post("/v1/dead-letters/replay", { run_id: run.run_id }), `Replayed a run of ${run.task}`, { then: reload });
  const discard = async (run) => {
    const text = "It cannot be replayed afterwards. The history of the run stays until its retention ends.";
    if (await askBack({ title: `Discard this run of ${run.task}?`, text, yes: "Discard it", no: "Keep it" })) {
      await act(() => post("/v1/dead-letters/discard", { run_id: run.run_id }), `Discarded a run of ${run.task}`, { then: reload });
    }
  };
  return html`<form class="finder" role="search" onSubmit=${submit} key=${key}>
      <label><span class="hidden-words">Task</span><input name="task" type="search" placeholder="Task" defaultValue=${filter.task || ""} /></label>
      <label><span class="hidden-words">Text of the error</span><input name="error" type="search" placeholder="Part of the error" defaultValue=${filter.error || ""} /></label>
      <label><span class="hidden-words">Queue</span><input name="queue" type="search" placeholder="Queue" defaultValue=${filter.queue || ""} /></label>
      <${Range} filter=${filter} label="Died" />
      <button>Find</button>
    </form>
    ${filter.fingerprint && html`<p class="hint">One kind of error. <button class="plain tight" onClick=${() => setQuery({ fingerprint: null })}>Show all</button></p>`}
    ${page && page.items.length > 0 && html`<${BulkActions} objects="dead_letters" filter=${filter} />`}
    <${Wrong} error=${error} />
    ${!page && !error && html`<${Searching} found=${searching} word="dead letters" />`}
    ${page && !page.items.length && html`<${NoneFound} page=${page} place=${place} word="dead letters" />`}
    ${page && page.items.length > 0 && html`<div class="table dense"><table class="cards">
      <thead><tr><th scope="col">Task</th><th scope="col">Error</th><th scope="col">Failure</th><th scope="col">Queue</th><th scope="col">Attempts</th><th scope="col" aria-sort="descending">Due</th><th scope="col">Died</th>${may("control") && html`<th scope="col"><span class="hidden-words">Actions</span></th>`}</tr></thead>
      <tbody>${page.items.map((run) => html`<tr key=${run.run_id}>
        <td class="nowrap"><a class="job-name" href="/runs/${run.run_id}">${run.task}</a></td>
        <td class="wide small">${(run.error || "").split("\n")[0].slice(0, 120)}</td>
        <td><${Badge} status="FAILED" word=${(run.failure || "error").replaceAll("_", " ")} /></td>
        <td class="soft">${run.queue}</td>
        <td>${number(run.attempt + run.lost)}</td>
        <td><${Moment} at=${run.due_at} /></td>
        <td><${Moment} at=${run.died_at} /></td>
        ${may("control") && html`<td class="end"><span class="buttons">
          <button class="tight" onClick=${() => replay(run)}>Replay<span class="hidden-words"> ${run.task}</span></button>
          <button class="tight danger" onClick=${() => discard(run)}>Discard<span class="hidden-words"> ${run.task}</span></button>
        </span></td>`}
      </tr>`)}</tbody>
    </table></div>`}
    <${Pager} page=${page} place=${place} word="dead letters" />`;
}

function Groups() {
  const { data, error, reload } = useData((signal) => get("/v1/dead-letters/groups", {}, signal), ["dead letters"], { live: DIED });
  const bulk = useBulk("dead_letters", () => reload());
  return html`${(bulk.shown.length > 0 || (data && data.groups.length > 0)) && html`<${BulkPanel} objects="dead_letters" filter=${{}} bulk=${bulk} />`}
    <${Wrong} error=${error} />
    ${!data && !error && html`<${Loading} />`}
    ${data && !data.groups.length && html`<div class="card"><${Empty} title="No dead letters.">No run has used all its attempts.</${Empty}></div>`}
    <div class="stack">
      ${data && data.groups.map((group) => html`<${Group} key=${group.fingerprint} group=${group} more=${data.more} bulk=${bulk} />`)}
    </div>
    ${data && data.more && html`<p class="hint">The groups count the newest ${number(data.counted)}; there are more. Actions on a group include those.</p>`}`;
}

/** The server acts on the group, also when this page is closed. Only on dead letters that exist now: if the cause
 * persists, replayed runs die again, and would be replayed forever. */
function Group({ group, more, bulk }) {
  const count = `${number(group.count)}${more ? "+" : ""}`;
  const start = async (each) => {
    try {
      const { now: end_time } = await get("/v1/me");
      await bulk.start(each, { fingerprint: group.fingerprint, end_time });
    } catch (error) {
      complain(error);
    }
  };
  return html`<article class="card">
    <header>
      <h2>${group.tasks.join(", ")} <span class="soft">× ${count}</span></h2>
      <span class="soft small">last <${Moment} at=${group.last_died_at} />, first <${Moment} at=${group.first_died_at} /></span>
    </header>
    <pre class="text">${(group.error || group.failure || "unknown").split("\n")[0]}</pre>
    <p class="hint"><a href="/runs/${group.newest_run}">Newest run</a>, <a href="/dead-letters?view=list&fingerprint=${encodeURIComponent(group.fingerprint)}">all of them</a></p>
    ${may("control") && html`<div class="buttons actions">
      ${actionsOn("dead_letters").map((each) => html`<button key=${each.action} class=${each.action === "discard" ? "danger" : "main"} disabled=${bulk.busy} onClick=${() => start(each)}>${each.word} ${count}</button>`)}
    </div>`}
  </article>`;
}
