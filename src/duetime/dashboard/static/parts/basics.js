// Small components: badges, times, bars, empty states, pagers, errors.

import { useNow } from "../core/data.js";
import { html } from "../core/view.js";
import { length, moment, relative, title } from "../core/words.js";

const LOOKS = {
  SUCCEEDED: "good",
  ACTIVE: "good",
  FAILED: "bad",
  LOST: "bad",
  SUSPENDED: "bad",
  RUNNING: "busy",
  RETRYING: "warn",
  PAUSED: "warn",
  SNOOZED: "warn",
};

export const look = (status) => LOOKS[status] || "";

export const Badge = ({ status, word }) => html`<span class="badge ${look(status)}">${word || title(status)}</span>`;

/** A time relative to now, updated each second; the exact time is in the tooltip and for screen readers. */
export function Moment({ at, none = "–" }) {
  const now = useNow();
  if (!at) return html`<span class="soft">${none}</span>`;
  return html`<time datetime=${at} title=${moment(at)} class="nowrap">${relative(at, now)}</time>`;
}

export const Exact = ({ at }) => (at ? html`<time datetime=${at} class="nowrap">${moment(at)}</time>` : "–");

/** The last runs of a job: the height is the duration, the colour is the status. */
export function Bars({ runs, places = 12, none = "no runs yet" }) {
  if (!runs || !runs.length) return html`<span class="bars soft small">${runs ? none : ""}</span>`;
  const shown = runs.slice(0, places).reverse();
  const most = Math.max(...shown.map((run) => run.duration || 0), 0.001);
  const words = `Last ${shown.length} runs, newest last: ${shown.map((run) => run.status.toLowerCase()).join(", ")}`;
  return html`<span class="bars" role="group" aria-label=${words}>
    ${shown.map((run) => {
      const share = Math.sqrt((run.duration || 0) / most);
      const says = `${title(run.status)}${run.duration === null ? "" : ` in ${length(run.duration)}`}, due ${moment(run.due_at)}`;
      return html`<a key=${run.run_id} href="/runs/${run.run_id}" title=${says} aria-label=${says}>
        <i class=${look(run.status)} style=${{ height: `${Math.round(20 + 80 * share)}%` }}></i>
      </a>`;
    })}
  </span>`;
}

export const Empty = ({ children, title: head }) => html`<div class="empty"><strong>${head}</strong>${children}</div>`;

export function Wrong({ error }) {
  if (!error) return null;
  return html`<p class="trouble-line" role="alert">
    ${error.message}${error.remedy ? html`<span class="soft"> ${error.remedy}</span>` : null}
  </p>`;
}

const backTo = (page) => (page.searched_to ? ` back to ${moment(page.searched_to)}` : "");

/** While the first items of a list are not there: that it loads, and how far a long search is. */
export const Searching = ({ found, word }) =>
  found
    ? html`<p class="soft empty" aria-busy="true" role="status">Searching… No ${word} found${backTo(found)} yet.</p>`
    : html`<${Loading} />`;

/** A page without items: that nothing matches, or how to search the rest. */
export const NoneFound = ({ page, place, word, title: head = `No ${word} match.`, children }) =>
  page.next_cursor
    ? html`<div class="card"><${Empty} title=${`No ${word} found so far.`}>
        The ${word}${backTo(page)} were searched, and there are more.
        <p><button onClick=${() => place.on(page.next_cursor)}>Search further</button></p>
      </${Empty}></div>`
    : html`<div class="card"><${Empty} title=${head}>${children}</${Empty}></div>`;

export const Loading = () => html`<p class="soft empty" aria-busy="true">Loading…</p>`;

/** Paging by cursor; `place` is from placeIn. */
export function Pager({ page, place, word = "items", labels = ["Newer", "Older"] }) {
  const next = page && page.next_cursor;
  if (place.number === 1 && !next) return null;
  const [back, on] = labels;
  return html`<nav class="pager" aria-label=${`Pagination of ${word}`}>
    <span class="buttons">
      ${place.first && html`<button class="tight" onClick=${place.first}>First page</button>`}
      <button class="tight" disabled=${!place.back} onClick=${place.back}>← ${back}</button>
    </span>
    <span>Page ${place.number}${page ? `, ${page.items.length} ${word}` : ""}</span>
    <button class="tight" disabled=${!next} onClick=${() => place.on(next)}>${on} →</button>
  </nav>`;
}

export const Segments = ({ label, value, choices, onPick }) => html`<div class="segments" role="group" aria-label=${label}>
  ${choices.map(
    ([name, word]) =>
      html`<button key=${name} type="button" aria-pressed=${String(value === name)} onClick=${() => onPick(name)}>${word}</button>`,
  )}
</div>`;

export const Head = ({ title: head, children, buttons }) => html`<header class="head">
  <div>
    <h1 tabindex="-1">${head}</h1>
    ${children && html`<p>${children}</p>`}
  </div>
  ${buttons && html`<div class="buttons">${buttons}</div>`}
</header>`;

export const Meter = ({ share, label, mark = "" }) => html`<div
  class="meter"
  role="meter"
  aria-label=${label}
  aria-valuemin="0"
  aria-valuemax="100"
  aria-valuenow=${Math.round(share * 100)}
>
  <i class=${mark} style=${{ width: `${Math.min(100, Math.round(share * 100))}%` }}></i>
</div>`;
