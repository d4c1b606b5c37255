// A range of time as part of a filter. Shortcuts become two moments, so that a link to the view stays exact.

import { html, useState } from "../core/view.js";
import { now } from "../core/words.js";
import { fromField, toField, useZone } from "../core/zone.js";

const MINUTE = 60000;
const HOUR = 60 * MINUTE;
const PAST = [["-1h", "Last hour", -HOUR], ["-24h", "Last 24 hours", -24 * HOUR], ["-7d", "Last 7 days", -168 * HOUR]];
const AHEAD = [["+1h", "Next hour", HOUR], ["+24h", "Next 24 hours", 24 * HOUR], ["+7d", "Next 7 days", 168 * HOUR]];

/** The range from a submitted form: `start_time` and `end_time`, or nothing. */
export function rangeFrom(given) {
  const found = [...PAST, ...AHEAD].find(([name]) => name === given.range);
  if (found) {
    const whole = Math.floor(now() / MINUTE) * MINUTE;
    const [start, end] = found[2] < 0 ? [whole + found[2], whole + MINUTE] : [whole, whole + found[2]];
    return { start_time: new Date(start).toISOString(), end_time: new Date(end).toISOString() };
  }
  return given.range ? { start_time: fromField(given.from || ""), end_time: fromField(given.until || "") } : {};
}

/** The fields of a form: a choice, and two moments where the choice is its own. */
export function Range({ filter, label, ahead = false }) {
  const given = filter.start_time || filter.end_time;
  const [picked, setPicked] = useState(given ? "between" : "");
  const zone = useZone();
  return html`<label>
      <span class="hidden-words">${label}</span>
      <select name="range" value=${picked} onChange=${(event) => setPicked(event.target.value)}>
        <option value="">Any time</option>
        ${[...PAST, ...(ahead ? AHEAD : [])].map(([name, word]) => html`<option key=${name} value=${name}>${word}</option>`)}
        <option value="between">Between…</option>
      </select>
    </label>
    ${picked === "between" && html`<div class="between" key=${zone}>
      <label><span>${label} from</span><input type="datetime-local" name="from" defaultValue=${toField(filter.start_time)} /></label>
      <label><span>until</span><input type="datetime-local" name="until" defaultValue=${toField(filter.end_time)} /></label>
    </div>`}`;
}
