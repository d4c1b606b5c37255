// Formatting of numbers and times. Times are in the chosen zone.

import { formatIn } from "./zone.js";

const NUMBER = new Intl.NumberFormat("en");
const PERCENT = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 1 });
const FULL = { dateStyle: "medium", timeStyle: "medium" };
const DAY = { weekday: "short", day: "numeric", month: "short" };
const CLOCK = { hour: "2-digit", minute: "2-digit" };
const SECONDS = { hour: "2-digit", minute: "2-digit", second: "2-digit" };

const shown = (options, at) => formatIn("en-GB", options).format(at);

let offset = 0;

/** Use the server's clock, which decides what is due. */
export function setClock(serverNow) {
  offset = Date.parse(serverNow) - Date.now();
}

export const now = () => Date.now() + offset;

export const number = (value) => NUMBER.format(value);
export const percent = (share) => PERCENT.format(share);

export function count({ value, kind }) {
  if (kind === "estimate") return `≈ ${number(roundly(value))}`;
  return kind === "at_least" ? `${number(value)}+` : number(value);
}

function roundly(value) {
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(Math.max(1, value))) - 1);
  return Math.round(value / unit) * unit;
}

export const plural = (value, word, words = `${word}s`) => `${number(value)} ${value === 1 ? word : words}`;

/** A length of time, in two units at most. */
export function length(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.001) return "0 ms";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const units = [
    ["d", 86400],
    ["h", 3600],
    ["min", 60],
    ["s", 1],
  ];
  const whole = Math.round(seconds);
  const first = units.findIndex(([, size]) => whole >= size);
  const parts = units.slice(first, first + 2).map(([unit, size], place) => {
    const amount = place ? Math.floor((whole % units[first][1]) / size) : Math.floor(whole / size);
    return amount ? `${amount} ${unit}` : "";
  });
  return parts.filter(Boolean).join(" ");
}

export const moment = (text) => (text ? shown(FULL, new Date(text)) : "–");
export const day = (date) => shown(DAY, date);
export const clock = (date) => shown(CLOCK, date);
export const clockSeconds = (text) => shown(SECONDS, new Date(text));

/** A date without a time, such as 2027-01-31: the same in every zone. */
export const date = (text) => formatIn("en-GB", DAY, "UTC").format(Date.parse(text));

/** A time relative to now: "in 3 min", "2 h ago". */
export function relative(text, at = now()) {
  if (!text) return "–";
  const seconds = (Date.parse(text) - at) / 1000;
  if (Math.abs(seconds) < 1) return "now";
  const whole = Math.trunc(Math.abs(seconds));
  return seconds > 0 ? `in ${length(whole)}` : `${length(whole)} ago`;
}

export const title = (word) => word.charAt(0) + word.slice(1).toLowerCase();
/** The end of the id of a worker, which is looked for nowhere. Ids of jobs and runs are shown as a whole: the search
 * knows their beginning, and ids that were made together differ at the end alone. */
export const short = (id) => (id ? `${id.slice(0, id.indexOf("_") + 1)}…${id.slice(-6)}` : "–");
