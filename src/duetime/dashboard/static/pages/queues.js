// Queues: their waiting runs, limits and pauses.

import { useData } from "../core/data.js";
import { act } from "../core/doing.js";
import { get, post } from "../core/http.js";
import { anything } from "../core/live.js";
import { may } from "../core/session.js";
import { html } from "../core/view.js";
import { number } from "../core/words.js";
import { Badge, Empty, Head, Loading, Meter, Moment, Wrong } from "../parts/basics.js";

function limits(queue) {
  const found = [];
  if (queue.running_limit !== null) found.push(`${number(queue.running || 0)} of ${number(queue.running_limit)} running`);
  if (queue.rate) found.push(`starts at most ${queue.rate}`);
  if (queue.held_back) found.push(`${number(queue.held_back)} held back by key limits`);
  return found.join(", ") || "none";
}

// Where plain runs wait: in the store, or in a stream at a broker.
function kind(queue) {
  if (!queue.stream) return queue.earlier_streams ? "store, a stream empties" : "store";
  const found = [queue.stream.broker];
  if (queue.stream.only) found.push("only");
  if (queue.stream.fallback) found.push("falls back to the store");
  if (queue.stream.max_depth !== null) found.push(`at most ${number(queue.stream.max_depth)}`);
  return found.join(", ");
}

export function Queues() {
  const { data, error, reload } = useData((signal) => get("/v1/queues", {}, signal), ["queues page"], { live: anything, every: 10000 });
  const steer = (queue) => {
    const path = `/v1/queues/${encodeURIComponent(queue.name)}`;
    const [verb, back, word] = queue.paused ? ["resume", "pause", "Resumed"] : ["pause", "resume", "Paused"];
    return act(() => post(`${path}/${verb}`), `${word} the queue ${queue.name}`, { undo: () => post(`${path}/${back}`), then: reload });
  };
  const steers = may("steer_queues");
  const waits = (queue) => queue.depth.high + queue.depth.medium + queue.depth.low;
  const inStreams = (queue) => queue.in_streams.reduce((sum, stream) => sum + stream.depth, 0);
  const most = data ? Math.max(...data.items.map(waits), 1) : 1;
  return html`<${Head} title="Queues">A paused queue starts no new runs. Running ones continue.</${Head}>
    <${Wrong} error=${error} />
    ${!data && !error && html`<${Loading} />`}
    ${data && !data.items.length && html`<div class="card"><${Empty} title="There are no queues yet.">The first job creates one.</${Empty}></div>`}
    ${data && data.items.length > 0 && html`<div class="table"><table class="cards">
      <thead><tr>
        <th scope="col">Queue</th><th scope="col">State</th><th scope="col">Kind</th><th scope="col">Waiting</th>
        <th scope="col">High</th><th scope="col">Medium</th><th scope="col">Low</th><th scope="col">Limits</th>
        ${steers && html`<th scope="col"><span class="hidden-words">Actions</span></th>`}
      </tr></thead>
      <tbody>${data.items.map((queue) => html`<tr key=${queue.name}>
        <td class="wide"><a class="job-name" href="/jobs?queue=${encodeURIComponent(queue.name)}">${queue.name}</a></td>
        <td>${queue.paused ? html`<${Badge} status="PAUSED" /> <${Moment} at=${queue.paused_at} />` : html`<${Badge} status="ACTIVE" word="Active" />`}</td>
        <td class="soft small" title=${[queue.stream && queue.stream.address, ...queue.notes].filter(Boolean).join("\n")}>${kind(queue)}</td>
        <td style=${{ minWidth: "150px" }}>
          <div>${number(waits(queue))}${queue.depth.capped ? "+" : ""}${queue.in_streams.length > 0 && html`<span class="soft small"> and ${number(inStreams(queue))} in the stream</span>`}</div>
          <${Meter} share=${waits(queue) / most} label=${`Waiting in ${queue.name}`} />
        </td>
        <td>${number(queue.depth.high)}</td><td>${number(queue.depth.medium)}</td><td>${number(queue.depth.low)}</td>
        <td class="soft small">${limits(queue)}</td>
        ${steers && html`<td class="end"><button class="tight" onClick=${() => steer(queue)}>${queue.paused ? "Resume" : "Pause"}<span class="hidden-words"> ${queue.name}</span></button></td>`}
      </tr>`)}</tbody>
    </table></div>`}`;
}
