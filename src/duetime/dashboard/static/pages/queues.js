// Queues: what waits, arrives, runs and ends in them; their limits and pauses.

import { useData } from "../core/data.js";
import { act } from "../core/doing.js";
import { get, post } from "../core/http.js";
import { anything } from "../core/live.js";
import { may } from "../core/session.js";
import { html, useState } from "../core/view.js";
import { number } from "../core/words.js";
import { Badge, Empty, Head, Loading, Meter, Moment, Wrong } from "../parts/basics.js";
import { LimitForm } from "../parts/queue_limits.js";

function limits(queue) {
  const found = [];
  if (queue.running_limit !== null) found.push(`at most ${number(queue.running_limit)} running`);
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

const perSecond = (rate) => (rate ? `${rate < 10 ? rate.toFixed(2) : number(Math.round(rate))}/s` : "–");
const waits = (queue) => queue.depth.high + queue.depth.medium + queue.depth.low;
const inStreams = (queue) => queue.in_streams.reduce((sum, stream) => sum + stream.depth, 0);
const byPriority = ({ high, medium, low }) => [[high, "high"], [medium, "medium"], [low, "low"]].filter(([count]) => count).map(([count, word]) => `${number(count)} ${word}`).join(", ");

export function Queues() {
  const { data, error, reload } = useData((signal) => get("/v1/queues", {}, signal), ["queues page"], { live: anything, every: 5000 });
  const [edited, setEdited] = useState(null);
  const steer = (queue) => {
    const path = `/v1/queues/${encodeURIComponent(queue.name)}`;
    const [verb, back, word] = queue.paused ? ["resume", "pause", "Resumed"] : ["pause", "resume", "Paused"];
    const after = queue.paused ? ` ${number(waits(queue))} waiting runs may start.` : ` ${number(queue.running)} running runs continue.`;
    return act(() => post(`${path}/${verb}`), `${word} the queue ${queue.name}.${after}`, { undo: () => post(`${path}/${back}`), then: reload });
  };
  const steers = may("steer_queues");
  const limited = data && data.items.find((queue) => queue.name === edited);
  const most = data ? Math.max(...data.items.map(waits), 1) : 1;
  return html`<${Head} title="Queues">A paused queue starts no new runs. Running ones continue. Rates are those of the last minute.</${Head}>
    <${Wrong} error=${error} />
    ${!data && !error && html`<${Loading} />`}
    ${data && !data.items.length && html`<div class="card"><${Empty} title="There are no queues yet.">The first job creates one.</${Empty}></div>`}
    ${data && data.items.length > 0 && html`<div class="table"><table class="cards">
      <thead><tr>
        <th scope="col">Queue</th><th scope="col">State</th><th scope="col">Kind</th><th scope="col">Waiting</th>
        <th scope="col">Oldest</th><th scope="col">Arrive</th><th scope="col">End</th><th scope="col">Running</th><th scope="col">Limits</th>
        ${steers && html`<th scope="col"><span class="hidden-words">Actions</span></th>`}
      </tr></thead>
      <tbody>${data.items.map((queue) => html`<tr key=${queue.name}>
        <td class="wide"><a class="job-name" href="/jobs?queue=${encodeURIComponent(queue.name)}">${queue.name}</a></td>
        <td>${queue.paused ? html`<${Badge} status="PAUSED" /> <${Moment} at=${queue.paused_at} />` : html`<${Badge} status="ACTIVE" word="Active" />`}</td>
        <td class="soft small ${queue.stream ? "" : "nowrap"}" title=${[queue.stream && queue.stream.address, ...queue.notes].filter(Boolean).join("\n")}>${kind(queue)}</td>
        <td style=${{ minWidth: "130px" }}>
          <div>${number(waits(queue))}${queue.depth.capped ? "+" : ""}<span class="soft small"> ${byPriority(queue.depth)}${queue.in_streams.length > 0 ? ` and ${number(inStreams(queue))} in the stream` : ""}</span></div>
          <${Meter} share=${waits(queue) / most} label=${`Waiting in ${queue.name}`} />
        </td>
        <td class="nowrap"><${Moment} at=${queue.oldest_at} /></td>
        <td class="nowrap">${perSecond(queue.arrival_rate)}</td>
        <td class="nowrap">${perSecond(queue.completion_rate)}</td>
        <td class="nowrap">${number(queue.running)}${queue.running_limit === null ? "" : ` of ${number(queue.running_limit)}`}</td>
        <td class="soft small">${limits(queue)}</td>
        ${steers && html`<td class="end"><span class="buttons">
          <button class="tight" onClick=${() => setEdited(queue.name)}>Limits<span class="hidden-words"> of ${queue.name}</span></button>
          <button class="tight" onClick=${() => steer(queue)}>${queue.paused ? "Resume" : "Pause"}<span class="hidden-words"> ${queue.name}</span></button>
        </span></td>`}
      </tr>`)}</tbody>
    </table></div>`}
    ${limited && html`<${LimitForm} key=${edited} queue=${limited} close=${() => setEdited(null)} then=${reload} />`}`;
}
