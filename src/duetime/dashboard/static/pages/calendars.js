// Calendars: days on which jobs do not fire.

import { html } from "../core/view.js";
import { date, number } from "../core/words.js";
import { Managed, named } from "../parts/managed.js";

const FEW = 6;

function Days({ item }) {
  const today = new Date().toISOString().slice(0, 10);
  const coming = item.dates.filter((each) => each >= today);
  const words = coming.slice(0, FEW).map((each) => `${date(each)} ${each.slice(0, 4)}`).join(", ");
  return html`<span class="small">${words || "none ahead"}${coming.length > FEW ? ` and ${coming.length - FEW} more` : ""}</span>`;
}

const KIND = {
  title: "Calendars",
  intro: html`Days on which jobs do not fire: a job names calendars in its option <code>exclude</code>.`,
  noun: "calendar",
  path: "/v1/calendars",
  request: "CalendarRequest",
  start: { dates: [null] },
  none: "Create one for the holidays of a country.",
  gone: "Jobs that use it keep it from being deleted.",
  columns: [
    named,
    ["Next days", (item) => html`<${Days} item=${item} />`],
    ["Days", (item) => number(item.dates.length)],
    ["Jobs", (item) => number(item.jobs)],
    ["Version", (item) => number(item.version)],
  ],
};

export const Calendars = ({ query }) => html`<${Managed} kind=${KIND} query=${query} />`;
