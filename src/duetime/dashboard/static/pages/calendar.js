// Calendar: future fires as a heat map. Each cell links to its jobs.

import { useData } from "../core/data.js";
import { address, get } from "../core/http.js";
import { html, useState } from "../core/view.js";
import { clock, day, length, now, number, plural } from "../core/words.js";
import { Head, Loading, Segments, Wrong } from "../parts/basics.js";

const HOUR = 3600;
const TONES = [0.3, 0.7, 1.4, 3];

function midnight(ahead = 0) {
  const date = new Date(now());
  date.setHours(0, 0, 0, 0);
  date.setDate(date.getDate() + ahead);
  return date;
}

/** The week view has a column for each day. The day view has a row for each hour, in steps of five minutes. */
const VIEWS = {
  week: {
    step: HOUR,
    columns: () => [0, 1, 2, 3, 4, 5, 6].map((ahead) => day(midnight(ahead))),
    start: () => midnight(),
    end: () => midnight(7),
    at: (row, column) => {
      const date = midnight(column);
      date.setHours(row);
      return date;
    },
    next: (row, column) => [row + 1, column],
  },
  day: {
    step: HOUR / 12,
    columns: () => Array.from({ length: 12 }, (_, place) => `:${String(place * 5).padStart(2, "0")}`),
    start: () => midnight(),
    end: () => midnight(1),
    at: (row, column) => {
      const date = midnight();
      date.setHours(row, column * 5);
      return date;
    },
    next: (row, column) => [row, column + 1],
  },
};

export function Calendar() {
  const [name, setName] = useState("week");
  const [queue, setQueue] = useState("");
  const view = VIEWS[name];
  // The past has no forecast: the request starts at the current hour.
  const step = view.step * 1000;
  const today = midnight().getTime();
  const from = new Date(today + Math.floor((now() - today) / step) * step);
  const ask = { start: from.toISOString(), end: view.end().toISOString(), step: view.step };
  const { data: fires, error } = useData((signal) => get("/v1/fires", ask, signal), ["calendar", ask], { every: 30000 });
  const queues = fires ? [...new Set(fires.items.map((item) => item.queue))].sort() : [];
  const cells = new Map();
  if (fires) {
    fires.items
      .filter((item) => !queue || item.queue === queue)
      .forEach((item) => cells.set(Date.parse(item.at), (cells.get(Date.parse(item.at)) || 0) + item.count));
  }
  const buttons = html`<label><span class="hidden-words">Queue</span>
      <select value=${queue} onChange=${(event) => setQueue(event.target.value)}>
        <option value="">All queues</option>
        ${queues.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
      </select></label>
    <${Segments} label="Period" value=${name} onPick=${setName} choices=${[["week", "Week"], ["day", "Today"]]} />`;
  return html`<${Head} title="Calendar" buttons=${buttons}>Future fires. Dark cells have many, empty cells have none.</${Head}>
    <${Wrong} error=${error} />
    ${!fires && !error && html`<${Loading} />`}
    ${fires && html`<${Summary} cells=${cells} from=${from} view=${view} estimate=${fires.estimate} />
      <${Heat} cells=${cells} view=${view} name=${name} queue=${queue} from=${from} />`}`;
}

function Summary({ cells, from, view, estimate }) {
  const total = [...cells.values()].reduce((sum, each) => sum + each, 0);
  if (!total) return html`<p class="well">No fires in this period.</p>`;
  const [at, most] = [...cells].reduce((found, each) => (each[1] > found[1] ? each : found));
  let gap = { from: null, seconds: 0 };
  let began = null;
  for (let time = from.getTime(); time < view.end().getTime(); time += view.step * 1000) {
    if (cells.get(time)) began = null;
    else {
      began = began || time;
      const seconds = (time - began) / 1000 + view.step;
      if (seconds > gap.seconds) gap = { from: began, seconds };
    }
  }
  const says = (time) => `${day(new Date(time))}, ${clock(new Date(time))}`;
  return html`<p class="summary">
    ${estimate ? "About " : ""}<strong>${plural(total, "run")}</strong>, at most <strong>${number(most)}</strong> per ${length(view.step)}: ${says(at)}.
    ${gap.seconds > view.step ? ` The longest gap is ${length(gap.seconds)}, from ${says(gap.from)}.` : ""}
    ${estimate ? html` <span class="soft">Estimated: ${estimate}.</span>` : ""}
  </p>`;
}

function Heat({ cells, view, name, queue, from }) {
  const sorted = [...cells.values()].sort((one, other) => one - other);
  const typical = sorted[Math.floor(sorted.length / 2)] || 1;
  // The average has the middle tone, so that peaks and quiet hours stand out.
  const level = (value) => 1 + TONES.filter((tone) => value > tone * typical).length;
  const columns = view.columns();
  return html`<div class="table" tabindex="0" role="region" aria-label="Heat map"><table class="heat">
    <thead><tr><th scope="col">${name === "week" ? "Hour" : "Minute"}</th>${columns.map((column) => html`<th key=${column} scope="col">${column}</th>`)}</tr></thead>
    <tbody>
      ${Array.from({ length: 24 }, (_, row) => html`<tr key=${row}>
        <th scope="row">${String(row).padStart(2, "0")}:00</th>
        ${columns.map((column, place) => {
          const at = view.at(row, place);
          // Ends where the next cell begins: on a clock change, a cell may be empty or an hour longer.
          const until = view.at(...view.next(row, place));
          let value = 0;
          for (let time = at.getTime(); time < until.getTime(); time += view.step * 1000) value += cells.get(time) || 0;
          if (!value) return html`<td key=${column}><span class=${at < from ? "past" : ""}></span></td>`;
          const to = address("/jobs", { fires_from: at.toISOString(), fires_until: until.toISOString(), queue });
          const says = `${day(at)}, ${clock(at)}: ${plural(value, "run")}`;
          return html`<td key=${column}><a class="h${level(value)}" href=${to} title=${says} aria-label=${says}>${value < 10000 ? number(value) : `${Math.round(value / 1000)}k`}</a></td>`;
        })}
      </tr>`)}
    </tbody>
  </table></div>`;
}
