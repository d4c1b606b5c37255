// Streams: queues whose runs wait at a broker.

import { useData } from "../core/data.js";
import { get } from "../core/http.js";
import { html } from "../core/view.js";
import { number, plural, title } from "../core/words.js";
import { Badge, Empty, Head, Loading, Moment, Wrong } from "../parts/basics.js";

export function Streams() {
  const { data, error } = useData((signal) => get("/v1/queues", {}, signal), ["streams"], { every: 3000 });
  const { data: workers } = useData((signal) => get("/v1/workers", {}, signal), ["consumers"], { every: 5000 });
  const queues = data && data.items.filter((queue) => queue.stream || queue.in_streams.length || queue.earlier_streams);
  return html`<${Head} title="Streams">Queues whose runs wait at a broker instead of in the database.</${Head}>
    <${Wrong} error=${error} />
    ${!data && !error && html`<${Loading} />`}
    ${queues && !queues.length && html`<div class="card"><${Empty} title="No queue has a stream.">Give one an address: <code>duetime queues set mail --stream redis://…</code></${Empty}></div>`}
    <div class="stack">${queues && queues.map((queue) => html`<${Stream} key=${queue.name} queue=${queue} workers=${workers} />`)}</div>`;
}

function Stream({ queue, workers }) {
  const { stream } = queue;
  const consumers = workers && workers.items.filter((worker) => worker.alive && (!worker.queues.length || worker.queues.includes(queue.name)));
  return html`<article class="card">
    <header><h2>${queue.name}</h2><${Badge} status=${queue.paused ? "PAUSED" : stream ? "ACTIVE" : "ENDED"} word=${queue.paused ? "Paused" : stream ? stream.broker : "Draining"} /></header>
    ${queue.in_streams.length > 0 && html`<div class="table"><table class="cards">
      <thead><tr><th scope="col">Priority</th><th scope="col">Messages</th><th scope="col">Oldest</th></tr></thead>
      <tbody>${queue.in_streams.map((each) => html`<tr key=${each.priority}>
        <td>${title(each.priority)}</td><td>${number(each.depth)}${each.shared ? " (all tenants)" : ""}</td><td><${Moment} at=${each.oldest} none="unknown" /></td>
      </tr>`)}</tbody>
    </table></div>`}
    <dl class="facts" style=${{ marginTop: "14px" }}>
      ${stream && stream.address && html`<dt>Broker</dt><dd><code class="small">${stream.address}</code></dd>`}
      ${stream && html`<dt>When it is away</dt><dd>${stream.fallback ? "runs are stored in the database" : "runs are refused"}</dd>
        <dt>Runs it cannot carry</dt><dd>${stream.only ? "are refused" : "are stored in the database"}</dd>
        <dt>Most messages</dt><dd>${stream.max_depth === null ? "no limit" : number(stream.max_depth)}</dd>
        <dt>Generation</dt><dd>${number(stream.generation)}${stream.replicas === null ? "" : `, ${plural(stream.replicas, "replica")}`}</dd>`}
      <dt>Consumers</dt><dd>${consumers ? plural(consumers.length, "live worker") : "–"}</dd>
      ${queue.earlier_streams > 0 && html`<dt>Earlier streams</dt><dd>${plural(queue.earlier_streams, "stream")} may still hold runs, and are read until they are empty</dd>`}
    </dl>
    ${queue.notes.map((note) => html`<p class="hint" key=${note}>${note}</p>`)}
  </article>`;
}
