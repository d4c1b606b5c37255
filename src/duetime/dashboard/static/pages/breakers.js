// Breakers: targets that are not called for a while, because they fail.

import { useData } from "../core/data.js";
import { act } from "../core/doing.js";
import { get, post } from "../core/http.js";
import { anything } from "../core/live.js";
import { may } from "../core/session.js";
import { html } from "../core/view.js";
import { number, percent, title } from "../core/words.js";
import { Badge, Empty, Head, Loading, Moment, Wrong } from "../parts/basics.js";

const LOOKS = { closed: "ACTIVE", open: "FAILED", probing: "RETRYING", recovering: "RETRYING" };

export function Breakers() {
  const { data, error, reload } = useData((signal) => get("/v1/breakers", {}, signal), ["breakers"], { live: anything, every: 5000 });
  const reset = (breaker) => act(() => post("/v1/breakers/reset", { target: breaker.target }), `Closed the breaker of ${breaker.target}`, { then: reload });
  const steers = may("steer_queues");
  return html`<${Head} title="Breakers">A target that keeps failing is not called for a while, then probed. Its runs wait and use no attempts.</${Head}>
    <${Wrong} error=${error} />
    ${!data && !error && html`<${Loading} />`}
    ${data && !data.items.length && html`<div class="card"><${Empty} title="No open breakers.">All targets respond.</${Empty}></div>`}
    ${data && data.items.length > 0 && html`<div class="table"><table class="cards">
      <thead><tr><th scope="col">Target</th><th scope="col">State</th><th scope="col">Since</th><th scope="col">Next change</th><th scope="col">Recent failures</th><th scope="col">Times opened</th>
        ${steers && html`<th scope="col"><span class="hidden-words">Actions</span></th>`}</tr></thead>
      <tbody>${data.items.map((breaker) => html`<tr key=${breaker.target}>
        <td class="wide job-name">${breaker.target}</td>
        <td><${Badge} status=${LOOKS[breaker.state]} word=${title(breaker.state.toUpperCase())} /></td>
        <td><${Moment} at=${breaker.since} /></td>
        <td><${Moment} at=${breaker.until} /></td>
        <td>${breaker.tried ? `${percent(breaker.failed / breaker.tried)} of ${number(breaker.tried)}` : "–"}</td>
        <td>${number(breaker.trips)} ×</td>
        ${steers && html`<td class="end">${breaker.state !== "closed" && html`<button class="tight" onClick=${() => reset(breaker)}>Close now<span class="hidden-words"> ${breaker.target}</span></button>`}</td>`}
      </tr>`)}</tbody>
    </table></div>`}`;
}
