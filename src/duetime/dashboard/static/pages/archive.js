// Archive: the days whose history is in files.

import { useData } from "../core/data.js";
import { act } from "../core/doing.js";
import { get, post } from "../core/http.js";
import { listPage } from "../core/pages.js";
import { placeIn } from "../core/place.js";
import { isRoot, may } from "../core/session.js";
import { html, useState } from "../core/view.js";
import { date, number, plural } from "../core/words.js";
import { askBack } from "../parts/asking.js";
import { Badge, Empty, Exact, Head, Loading, Moment, Pager, Wrong } from "../parts/basics.js";

const size = (bytes) => (bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(2)} GB`);
const dated = (text) => `${date(text)} ${text.slice(0, 4)}`;

export function Archive({ query }) {
  const place = placeIn(query);
  const { cursor } = place;
  const { data, error, reload } = useData((signal) => listPage("/v1/archive", { page_size: 50, cursor }, signal), ["archive", cursor], { every: 30000 });
  return html`<${Head} title="Archive">Days whose history is in files. Lists and pages read them like other history, more slowly.</${Head}>
    <div class="stack">
      <${Wrong} error=${error} />
      ${isRoot() && html`<${State} />`}
      ${!data && !error && html`<${Loading} />`}
      ${data && !data.items.length && html`<div class="card"><${Empty} title="Nothing of this tenant is archived.">The setting <code>archive_url</code> says where history goes.</${Empty}></div>`}
      ${data && data.items.length > 0 && html`<div class="table"><table class="cards">
        <thead><tr><th scope="col">Day</th><th scope="col">Attempts</th><th scope="col">Size</th><th scope="col">Files</th><th scope="col">Kept until</th><th scope="col"><span class="hidden-words">Actions</span></th></tr></thead>
        <tbody>${data.items.map((each) => html`<tr key=${each.day}>
          <td class="wide job-name">${dated(each.day)}</td><td>${number(each.rows)}</td><td>${size(each.bytes)}</td><td>${number(each.files)}</td><td>${dated(each.expires)}</td>
          <td class="end">${may("control") && html`<${Restore} day=${each.day} then=${reload} />`}</td>
        </tr>`)}</tbody>
      </table></div>`}
      <${Pager} page=${data} place=${place} word="days" />
    </div>`;
}

/** A part of a day at a time, until it is restored. */
function Restore({ day, then }) {
  const [rows, setRows] = useState(null);
  const restore = async () => {
    const text = "Its rows are put back into the database for seven days. The files stay.";
    if (!(await askBack({ title: `Restore ${dated(day)}?`, text, yes: "Restore the day" }))) return;
    let done = 0;
    setRows(0);
    await act(
      async () => {
        for (let cursor = null; ; ) {
          const part = await post(`/v1/archive/${day}/restore`, { cursor });
          done += part.rows;
          setRows(done);
          cursor = part.next_cursor;
          if (!cursor) return done;
        }
      },
      (all) => `Restored ${plural(all, "row")} of ${dated(day)}`,
      { then },
    );
    setRows(null);
  };
  return html`<button class="tight" disabled=${rows !== null} onClick=${restore}>${rows === null ? "Restore" : `${number(rows)} rows…`}<span class="hidden-words"> ${dated(day)}</span></button>`;
}

/** Over all tenants. */
function State() {
  const { data, error, reload } = useData((signal) => get("/v1/admin/archive", {}, signal), ["archive state"], { every: 5000 });
  if (error) return html`<${Wrong} error=${error} />`;
  if (!data) return null;
  const words = data.url === null ? "This server archives nothing." : data.used ? "History is removed only after it was archived." : "The database may remove history that is not archived.";
  return html`<section class="card" aria-labelledby="state">
    <header><h2 id="state">State, over all tenants</h2>
      ${data.url !== null && html`<button class="tight" disabled=${data.running} onClick=${() => act(() => post("/v1/admin/archive/run"), "Archiving all ended days", { then: reload })}>Archive now</button>`}</header>
    <dl class="facts">
      <dt>Files</dt><dd>${data.url === null ? "none" : html`<code class="small">${data.url}</code>`}</dd>
      <dt>State</dt><dd>${data.running ? `archiving: ${plural(data.rows, "row")} so far` : words}</dd>
      <dt>Waiting</dt><dd>${data.waiting.length ? data.waiting.map(dated).join(", ") : "no day"}</dd>
      ${data.problem && html`<dt>Problem</dt><dd class="wrong">${data.problem}</dd>`}
    </dl>
    ${data.days.length > 0 && html`<div class="table" style=${{ marginTop: "14px" }}><table class="cards">
      <thead><tr><th scope="col">Day</th><th scope="col">State</th><th scope="col">Rows</th><th scope="col">Archived</th><th scope="col">Restored until</th></tr></thead>
      <tbody>${data.days.map((each) => html`<tr key=${each.day}>
        <td class="wide">${dated(each.day)}</td>
        <td><${Badge} status=${each.problem ? "FAILED" : each.removed_at ? "ENDED" : each.archived_at ? "SUCCEEDED" : "PENDING"} word=${each.problem ? "Failed" : each.removed_at ? "Only in files" : each.archived_at ? "Archived" : "Waiting"} /> <span class="small">${each.problem || ""}</span></td>
        <td>${number(each.rows)}</td><td><${Moment} at=${each.archived_at} /></td><td><${Exact} at=${each.restored_until} /></td>
      </tr>`)}</tbody>
    </table></div>`}
  </section>`;
}
