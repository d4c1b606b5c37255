// The limits of a queue: a form that says what a change does before it is made.

import { act } from "../core/doing.js";
import { ask } from "../core/http.js";
import { html, useState } from "../core/view.js";
import { length, number, plural } from "../core/words.js";
import { closeAround, Dialog } from "./dialog.js";

const UNITS = { s: 1, m: 60, h: 3600, d: 86400 };

/** Starts per second of a rate such as 100/m; null if it is none. */
function perSecond(rate) {
  const found = /^([0-9]{1,7})\/([0-9]{0,5})(s|m|h|d)$/.exec(rate);
  if (!found || !Number(found[1])) return null;
  return Number(found[1]) / (Number(found[2] || 1) * UNITS[found[3]]);
}

const waits = (queue) => queue.depth.high + queue.depth.medium + queue.depth.low;

/** What a limit on running runs does. */
function ofRunning(queue, running) {
  if (running === null) return "No limit: as many run at once as workers have slots.";
  const over = queue.running - running;
  if (over > 0) return `${plural(queue.running, "run")} run now. They continue; none starts until ${plural(over + 1, "of them has", "of them have")} ended.`;
  if (over === 0) return `${plural(queue.running, "run")} run now: one starts whenever one ends.`;
  return `${plural(queue.running, "run")} run now: ${number(-over)} more can start.`;
}

/** What a rate does. */
function ofRate(queue, rate) {
  if (rate === "") return "No rate: runs start as soon as a slot is free.";
  const allowed = perSecond(rate);
  if (allowed === null) return "A rate is written as 100/m, 5/s or 10/30s.";
  const growing = queue.arrival_rate - allowed;
  const waiting = waits(queue);
  const drained = waiting && growing < 0 ? ` The ${plural(waiting, "waiting run")} take at least ${length(waiting / -growing)}.` : "";
  return growing > 0
    ? `At most ${allowed.toFixed(2)} start per second, but ${queue.arrival_rate.toFixed(2)} arrive: ${length(60)} adds ${number(Math.round(growing * 60))} waiting runs.`
    : `At most ${allowed.toFixed(2)} start per second; ${queue.arrival_rate.toFixed(2)} arrive now.${drained}`;
}

export function LimitForm({ queue, close, then }) {
  const [running, setRunning] = useState(queue.running_limit === null ? "" : String(queue.running_limit));
  const [rate, setRate] = useState(queue.rate || "");
  const wrong = (running !== "" && !/^[1-9][0-9]{0,6}$/.test(running)) || (rate !== "" && perSecond(rate) === null);
  const path = `/v1/queues/${encodeURIComponent(queue.name)}`;
  const before = { running: queue.running_limit, rate: queue.rate };
  const save = async (event) => {
    event.preventDefault();
    const body = { running: running === "" ? null : Number(running), rate: rate === "" ? null : rate };
    const done = await act(() => ask("PUT", path, { body }), `Changed the limits of ${queue.name}`, { undo: () => ask("PUT", path, { body: before }), then });
    if (done) close();
  };
  return html`<${Dialog} close=${close} aria-labelledby="limits">
    <form onSubmit=${save}>
      <h2 id="limits">Limits of ${queue.name}</h2>
      ${queue.kind === "stream" && html`<p class="hint">Its runs go through a stream: a stream queue has no limits.</p>`}
      <label><span>Running at once</span><input inputmode="numeric" placeholder="no limit" value=${running} aria-describedby="of-running" onInput=${(event) => setRunning(event.target.value.trim())} /></label>
      <p class="hint" id="of-running" role="status">${ofRunning(queue, running === "" ? null : Number(running) || 0)}</p>
      <label><span>Starts</span><input placeholder="no rate, or 100/m" value=${rate} aria-describedby="of-rate" onInput=${(event) => setRate(event.target.value.trim())} /></label>
      <p class="hint" id="of-rate" role="status">${ofRate(queue, rate)}</p>
      <div class="buttons">
        <button type="button" onClick=${closeAround}>Cancel</button>
        <button class="main" disabled=${wrong}>Save</button>
      </div>
    </form>
  </${Dialog}>`;
}
