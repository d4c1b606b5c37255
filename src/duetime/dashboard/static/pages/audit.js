// Audit: who changed which object.

import { useData } from "../core/data.js";
import { listPage } from "../core/pages.js";
import { placeIn } from "../core/place.js";
import { html } from "../core/view.js";
import { Empty, Exact, Head, Loading, Pager, Wrong } from "../parts/basics.js";

const LINKS = { job_: "/jobs/", run_: "/runs/" };

function Thing({ id }) {
  const base = LINKS[id.slice(0, 4)];
  return base ? html`<a href=${base + id}><code class="small">${id}</code></a>` : html`<code class="small">${id}</code>`;
}

export function Audit({ query }) {
  const place = placeIn(query);
  const { cursor } = place;
  const { data: page, error } = useData((signal) => listPage("/v1/audit", { page_size: 50, cursor }, signal), ["audit", cursor], { every: 10000 });
  return html`<${Head} title="Audit">Who changed which object. The log is append-only.</${Head}>
    <${Wrong} error=${error} />
    ${!page && !error && html`<${Loading} />`}
    ${page && !page.items.length && html`<div class="card"><${Empty} title="No entries yet." /></div>`}
    ${page && page.items.length > 0 && html`<div class="table"><table class="cards">
      <thead><tr><th scope="col">Time</th><th scope="col">Actor</th><th scope="col">Action</th><th scope="col">Object</th><th scope="col">Detail</th></tr></thead>
      <tbody>${page.items.map((entry, place) => html`<tr key=${entry.at + entry.object + place}>
        <td><${Exact} at=${entry.at} /></td>
        <td>${entry.actor}</td>
        <td><code>${entry.action}</code></td>
        <td><${Thing} id=${entry.object} /></td>
        <td class="soft small">${entry.detail || ""}</td>
      </tr>`)}</tbody>
    </table></div>`}
    <${Pager} page=${page} place=${place} word="entries" />`;
}
