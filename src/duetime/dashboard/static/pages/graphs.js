// Graphs: jobs that depend on each other. One is drawn from left to right, live, with its critical path marked.

import { useData, useNow } from "../core/data.js";
import { act } from "../core/doing.js";
import { get, post } from "../core/http.js";
import { criticalPath, layOut } from "../core/layout.js";
import { anything } from "../core/live.js";
import { listPage } from "../core/pages.js";
import { placeIn, setQuery } from "../core/place.js";
import { may } from "../core/session.js";
import { html, useMemo } from "../core/view.js";
import { length, number, plural, title } from "../core/words.js";
import { askBack } from "../parts/asking.js";
import { Badge, Empty, Head, Loading, Moment, Pager, Wrong, look } from "../parts/basics.js";

const DRAWN = 400;
const LISTED = 100;
/** What needs attention comes first. */
const ORDER = ["FAILED", "RUNNING", "RETRYING", "BLOCKED", "PENDING", "CANCELLED", "SKIPPED", "SUCCEEDED"];

export function Graphs({ query }) {
  const place = placeIn(query);
  const { cursor } = place;
  const { data: page, error } = useData((signal) => listPage("/v1/graphs", { cursor }, signal), ["graphs", cursor], { live: anything });
  return html`<${Head} title="Graphs">Jobs that depend on each other.</${Head}>
    <${Wrong} error=${error} />
    ${!page && !error && html`<${Loading} />`}
    ${page && !page.items.length && html`<div class="card"><${Empty} title="There are no graphs.">Submit one with <code>POST /v1/graphs</code>.</${Empty}></div>`}
    ${page && page.items.length > 0 && html`<div class="table"><table class="cards">
      <thead><tr><th scope="col">Graph</th><th scope="col">Status</th><th scope="col">Nodes</th><th scope="col">Created</th><th scope="col">Ended</th></tr></thead>
      <tbody>${page.items.map((graph) => html`<tr key=${graph.graph_id}>
        <td class="wide"><a class="job-name" href="/graphs/${graph.graph_id}">${graph.name || graph.graph_id}</a></td>
        <td><${Badge} status=${graph.status} /></td>
        <td>${number(graph.size)}</td>
        <td><${Moment} at=${graph.created_at} /></td>
        <td><${Moment} at=${graph.ended_at} none="running" /></td>
      </tr>`)}</tbody>
    </table></div>`}
    <${Pager} page=${page} place=${place} word="graphs" />`;
}

export function Graph({ id, query }) {
  const { data: graph, error, reload } = useData((signal) => get(`/v1/graphs/${id}`, {}, signal), ["graph", id], { live: anything });
  if (error && !graph) return html`<${Head} title="Graph" /><${Wrong} error=${error} />`;
  if (!graph) return html`<${Head} title="Graph" /><${Loading} />`;
  const says = Object.entries(graph.counts).map(([status, count]) => `${number(count)} ${title(status).toLowerCase()}`);
  return html`<${Head} title=${graph.name || "Graph"} buttons=${html`<${Buttons} graph=${graph} reload=${reload} />`}>
      <${Badge} status=${graph.status} /> ${plural(graph.size, "node")}: ${says.join(", ")}
    </${Head}>
    <div class="stack">
      ${graph.nodes.length <= DRAWN ? html`<${Drawing} graph=${graph} />` : html`<p class="hint">A graph of more than ${DRAWN} nodes is shown as a list.</p>`}
      <${Nodes} graph=${graph} query=${query} />
    </div>`;
}

function Buttons({ graph, reload }) {
  if (!may("control")) return null;
  const path = `/v1/graphs/${graph.graph_id}`;
  const cancel = async () => {
    const text = "Waiting nodes end as cancelled, and running ones are asked to stop. This cannot be undone.";
    if (await askBack({ title: "Cancel the graph?", text, yes: "Cancel it", no: "Keep it" })) await act(() => post(`${path}/cancel`), "Cancelled", { then: reload });
  };
  return html`${graph.ended_at && graph.status !== "SUCCEEDED" && html`<button class="main" onClick=${() => act(() => post(`${path}/rerun`), "Rerunning the failed nodes", { then: reload })}>Rerun from the failed nodes</button>`}
    ${!graph.ended_at && html`<button class="danger" onClick=${cancel}>Cancel</button>`}`;
}

function Drawing({ graph }) {
  const now = useNow();
  const layout = useMemo(() => layOut(graph.nodes, graph.edges), [graph.graph_id, graph.nodes.length]);
  const { path, seconds } = criticalPath(graph.nodes, layout, now);
  const onPath = new Set(path);
  const isStep = (edge) => onPath.has(edge.parent) && path[path.indexOf(edge.parent) + 1] === edge.child;
  const curve = ({ parent, child }) => {
    const from = layout.places.get(parent);
    const to = layout.places.get(child);
    const half = (to.x - from.x - 150) / 2;
    return `M${from.x + 150} ${from.y + 22} c${half} 0 ${half} ${to.y - from.y} ${2 * half} ${to.y - from.y}`;
  };
  return html`<div class="card graph" tabindex="0" role="group" aria-label=${path.length ? `The graph; its critical path is ${path.join(", ")}` : "The graph; no node has run yet"}>
    <svg width=${layout.width + 4} height=${layout.height + 4} viewBox="-2 -2 ${layout.width + 4} ${layout.height + 4}">
      ${graph.edges.map((edge) => html`<path key=${`${edge.parent} ${edge.child}`} d=${curve(edge)} class="edge ${isStep(edge) ? "critical" : ""}" />`)}
      ${graph.nodes.map((node) => {
        const at = layout.places.get(node.name);
        return html`<a key=${node.name} href="/runs/${node.run_id}">
          <g transform="translate(${at.x} ${at.y})" class="node ${look(node.status)} ${onPath.has(node.name) ? "critical" : ""}">
            <title>${node.name}: ${title(node.status)}</title>
            <rect width="150" height="44" rx="8" />
            <rect class="mark" width="5" height="28" x="8" y="8" rx="2" />
            <text x="22" y="19">${node.name.length > 17 ? `${node.name.slice(0, 16)}…` : node.name}</text>
            <text x="22" y="35" class="soft">${node.duration === null ? title(node.status) : length(node.duration)}</text>
          </g>
        </a>`;
      })}
    </svg>
    <p class="hint">${path.length ? `The critical path (marked) has ${path.length} of ${graph.nodes.length} nodes, ${length(seconds)}. It contains only nodes that ran.` : "No node has run yet."}</p>
  </div>`;
}

/** The nodes by state, those that failed first, a page at a time. */
function Nodes({ graph, query }) {
  const found = graph.nodes
    .filter((node) => !query.status || node.status === query.status)
    .sort((one, other) => ORDER.indexOf(one.status) - ORDER.indexOf(other.status));
  const last = Math.max(1, Math.ceil(found.length / LISTED));
  const at = Math.min(Math.max(1, Number(query.page) || 1), last);
  const shown = found.slice((at - 1) * LISTED, at * LISTED);
  const turn = (page) => setQuery({ page: page > 1 ? String(page) : null });
  const states = ORDER.filter((status) => graph.counts[status] || status === query.status);
  return html`<section class="stack" aria-labelledby="nodes">
    <div class="finder">
      <h2 id="nodes" class="hidden-words">Nodes</h2>
      <label><span class="hidden-words">Status of the nodes</span>
        <select value=${query.status || ""} onChange=${(event) => setQuery({ status: event.target.value || null })}>
          <option value="">All nodes (${number(graph.nodes.length)})</option>
          ${states.map((status) => html`<option key=${status} value=${status} selected=${status === query.status}>${title(status)} (${number(graph.counts[status] || 0)})</option>`)}
        </select>
      </label>
    </div>
    ${!shown.length && html`<div class="card"><${Empty} title="No nodes match." /></div>`}
    ${shown.length > 0 && html`<div class="table"><table class="cards">
      <thead><tr><th scope="col">Node</th><th scope="col">Status</th><th scope="col">Task</th><th scope="col">Duration</th></tr></thead>
      <tbody>${shown.map((node) => html`<tr key=${node.name}>
        <td class="wide"><a class="job-name" href="/runs/${node.run_id}">${node.name}</a></td>
        <td><${Badge} status=${node.status} /></td>
        <td class="soft">${node.task}</td>
        <td class="nowrap">${length(node.duration)}</td>
      </tr>`)}</tbody>
    </table></div>`}
    ${last > 1 && html`<nav class="pager" aria-label="Pagination of nodes">
      <button class="tight" disabled=${at === 1} onClick=${() => turn(at - 1)}>← Back</button>
      <span>Page ${at} of ${last}, ${plural(found.length, "node")}</span>
      <button class="tight" disabled=${at === last} onClick=${() => turn(at + 1)}>Next →</button>
    </nav>`}
  </section>`;
}
