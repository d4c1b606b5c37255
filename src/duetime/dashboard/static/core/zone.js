// The time zone of every time on every page: chosen once, kept in this browser.

import { useEffect, useState } from "./view.js";

const KEPT = "duetime.zone";
const DAY = 86400000;

export const BROWSER = Intl.DateTimeFormat().resolvedOptions().timeZone;
export const ZONES = [...new Set(["UTC", BROWSER, ...(Intl.supportedValuesOf ? Intl.supportedValuesOf("timeZone") : [])])];

const watchers = new Set();
let chosen = known(localStorage.getItem(KEPT));

/** A kept name that this browser does not know would make every time fail. */
function known(name) {
  try {
    return name && new Intl.DateTimeFormat("en", { timeZone: name }) ? name : null;
  } catch {
    return null;
  }
}

export const zone = () => chosen || BROWSER;

/** The browser's own zone is not kept: it follows a traveller. */
export function setZone(name) {
  chosen = name === BROWSER ? null : known(name);
  if (chosen) localStorage.setItem(KEPT, chosen);
  else localStorage.removeItem(KEPT);
  watchers.forEach((callback) => callback(zone()));
}

export function useZone() {
  const [found, setFound] = useState(zone);
  useEffect(() => {
    watchers.add(setFound);
    return () => watchers.delete(setFound);
  }, []);
  return found;
}

const formats = new Map();

/** A formatter for the current zone, or a given one. */
export function formatIn(locale, options, name = zone()) {
  const key = `${name} ${locale} ${JSON.stringify(options)}`;
  if (!formats.has(key)) formats.set(key, new Intl.DateTimeFormat(locale, { ...options, timeZone: name }));
  return formats.get(key);
}

const PARTS = { year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric", hourCycle: "h23", calendar: "gregory", numberingSystem: "latn" };

/** The clock on the wall at an instant. */
export function wallAt(at) {
  const found = {};
  for (const { type, value } of formatIn("en", PARTS).formatToParts(new Date(at))) found[type] = Number(value);
  return found;
}

const asUtc = ({ year, month, day, hour, minute, second }) => Date.UTC(year, month - 1, day, hour, minute, second);
const offsetAt = (at) => asUtc(wallAt(at)) - Math.floor(at / 1000) * 1000;

/** The instant at which the clock on the wall shows this; parts beyond their range carry over. A time that exists twice
 * is its first, and one that a clock change skips is the moment of the change, or as long after it. */
export function instantOf({ year, month, day, hour = 0, minute = 0 }) {
  const wanted = Date.UTC(year, month - 1, day, hour, minute);
  const [before, after] = [wanted - offsetAt(wanted - DAY), wanted - offsetAt(wanted + DAY)];
  return asUtc(wallAt(before)) !== wanted && asUtc(wallAt(after)) === wanted ? after : before;
}

/** An instant as a field of type datetime-local shows it, and back. */
export const toField = (text) => {
  if (!text) return "";
  return new Date(asUtc(wallAt(Date.parse(text)))).toISOString().slice(0, 16);
};
export function fromField(text) {
  const [year, month, day, hour, minute] = text.split(/[-T:]/).map(Number);
  return text ? new Date(instantOf({ year, month, day, hour, minute })).toISOString() : null;
}
