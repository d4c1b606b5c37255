// Calendar: future fires as a heat map. A cell links to the jobs whose runs it counts; a past one to its runs.

import { setQuery, useData } from "../core/data.js";
import { address, get } from "../core/http.js";
import { html } from "../core/view.js";
import { clock, day, length, now, number, plural } from "../core/words.js";
import { instantOf, useZone, wallAt } from "../core/zone.js";
import { Head, Loading, Segments, Wrong } from "../parts/basics.js";

const HOUR = 3600;
const TONES = [0.3, 0.7, 1.4, 3];
/** The forecast ends so many days ahead. */
const FARTHEST = 35;

/** The week view has a column for each day. The day view has a row for each hour, in steps of five minutes. */
const VIEWS = {
  week: {
    days: 7,
    step: HOUR,
    columns: (at) => [0, 1, 2, 3, 4, 5, 6].map((ahead) => day(at(12, ahead))),
    at: (midnight) => (row, column) => new Date(instantOf({ ...midnight, day: midnight.day + column, hour: row })),
    next: (row, column) => [row + 1, column],
  },
  day: {
    days: 1,
    step: HOUR / 12,
    columns: () => Array.from({ length: 12 }, (_, place) => `:${String(place * 5).padStart(2, "0")}`),
    at: (midnight) => (row, column) => new Date(instantOf({ ...midnight, hour: row, minute: column * 5 })),
    next: (row, column) => [row, column + 1],
  },
};

const pad = (value) => String(value).padStart(2, "0");
const written = ({ year, month, day: date }) => `${year}-${pad(month)}-${pad(date)}`;
const isDate = (text) => /^\d{4}-\d\d-\d\d$/.test(text || "") && !Number.isNaN(Date.parse(text));

/** The first day that is shown: the given one, but never one before today. */
function firstDay(text, today) {
  const [year, month, date] = isDate(text) ? text.split("-").map(Number) : [];
  return isDate(text) && text > written(today) ? { year, month, day: date } : { year: today.year, month: today.month, day: today.day };
}

const moved = (first, days) => {
  const date = new Date(Date.UTC(first.year, first.month - 1, first.day + days));
  return { year: date.getUTCFullYear(), month: date.getUTCMonth() + 1, day: date.getUTCDate() };
};

export function Calendar({ query }) {
  useZone();
  const name = query.view in VIEWS ? query.view : "week";
  const queue = query.queue || "";
  const view = VIEWS[name];
  const today = wallAt(now());
  const first = firstDay(query.from, today);
  const at = view.at(first);
  // The past has no forecast: the request starts at the current step.
  const step = view.step * 1000;
  const [begin, end] = [at(0, 0).getTime(), instantOf(moved(first, view.days))];
  const from = new Date(Math.max(begin, begin + Math.floor((now() - begin) / step) * step));
  const ask = { start: from.toISOString(), end: new Date(end).toISOString(), step: view.step };
  const { data: fires, error } = useData((signal) => get("/v1/fires", ask, signal), ["calendar", ask], { every: 30000 });
  const queues = [...new Set([...(fires ? fires.items.map((item) => item.queue) : []), ...(queue ? [queue] : [])])].sort();
  const cells = new Map();
  if (fires) {
    fires.items
      .filter((item) => !queue || item.queue === queue)
      .forEach((item) => cells.set(Date.parse(item.at), (cells.get(Date.parse(item.at)) || 0) + item.count));
  }
  const move = (days) => {
    const to = written(moved(first, days));
    setQuery({ from: to > written(today) ? to : null });
  };
  const last = moved(today, FARTHEST - view.days);
  const buttons = html`<label><span class="hidden-words">Queue</span>
      <select onChange=${(event) => setQuery({ queue: event.target.value })}>
        <option value="">All queues</option>
        ${queues.map((each) => html`<option key=${each} value=${each} selected=${each === queue}>${each}</option>`)}
      </select></label>
    <${Segments} label="Period" value=${name} onPick=${(each) => setQuery({ view: each === "week" ? null : each })} choices=${[["week", "Week"], ["day", "Day"]]} />
    <span class="buttons">
      <button aria-label=${`Previous ${name}`} disabled=${written(first) === written(today)} onClick=${() => move(-view.days)}>←</button>
      <button disabled=${written(first) === written(today)} onClick=${() => setQuery({ from: null })}>Today</button>
      <button aria-label=${`Next ${name}`} disabled=${written(moved(first, view.days)) > written(last)} onClick=${() => move(view.days)}>→</button>
    </span>`;
  const words = name === "week" ? `${day(at(12, 0))} to ${day(at(12, 6))}` : day(at(12, 0));
  return html`<${Head} title="Calendar" buttons=${buttons}>${words}: future fires. Dark cells have many, empty cells have none.</${Head}>
    <${Wrong} error=${error} />
    ${!fires && !error && html`<${Loading} />`}
    ${fires && html`<${Summary} cells=${cells} from=${from} end=${end} view=${view} estimate=${fires.estimate} />
      <${Heat} cells=${cells} view=${view} at=${at} name=${name} queue=${queue} from=${from} />`}`;
}

function Summary({ cells, from, end, view, estimate }) {
  const total = [...cells.values()].reduce((sum, each) => sum + each, 0);
  if (!total) return html`<p class="well">No fires in this period${estimate ? `: ${estimate}` : ""}.</p>`;
  const [at, most] = [...cells].reduce((found, each) => (each[1] > found[1] ? each : found));
  let gap = { from: null, seconds: 0 };
  let began = null;
  for (let time = from.getTime(); time < end; time += view.step * 1000) {
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

function Heat({ cells, view, at: atCell, name, queue, from }) {
  const sorted = [...cells.values()].sort((one, other) => one - other);
  const typical = sorted[Math.floor(sorted.length / 2)] || 1;
  // The average has the middle tone, so that peaks and quiet hours stand out.
  const level = (value) => 1 + TONES.filter((tone) => value > tone * typical).length;
  const columns = view.columns(atCell);
  return html`<div class="table" tabindex="0" role="region" aria-label="Heat map"><table class="heat">
    <thead><tr><th scope="col">${name === "week" ? "Hour" : "Minute"}</th>${columns.map((column) => html`<th key=${column} scope="col">${column}</th>`)}</tr></thead>
    <tbody>
      ${Array.from({ length: 24 }, (_, row) => html`<tr key=${row}>
        <th scope="row">${String(row).padStart(2, "0")}:00</th>
        ${columns.map((column, place) => {
          const at = atCell(row, place);
          // Ends where the next cell begins: on a clock change, a cell may be empty or an hour longer.
          const until = atCell(...view.next(row, place));
          let value = 0;
          for (let time = at.getTime(); time < until.getTime(); time += view.step * 1000) value += cells.get(time) || 0;
          const when = `${day(at)}, ${clock(at)}`;
          if (until <= from && at < until) {
            const ran = address("/runs", { start_time: at.toISOString(), end_time: until.toISOString(), queue });
            return html`<td key=${column}><a class="past" href=${ran} title=${`${when}: its runs`} aria-label=${`${when}: the runs of the past`}></a></td>`;
          }
          if (!value) return html`<td key=${column}><span></span></td>`;
          const to = address("/jobs", { fires_from: at.toISOString(), fires_until: until.toISOString(), queue });
          const says = `${when}: ${plural(value, "run")}`;
          return html`<td key=${column}><a class="h${level(value)}" href=${to} title=${says} aria-label=${says}>${value < 10000 ? number(value) : `${Math.round(value / 1000)}k`}</a></td>`;
        })}
      </tr>`)}
    </tbody>
  </table></div>`;
}
