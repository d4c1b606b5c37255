// A job as a form holds it, as texts; and the fields of a request that come of them.

import { zone } from "./words.js";

const WEEKDAYS = ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"];
const SCHEDULE = ["when", "tz", "start_at", "end_at", "exclude"];

export const EMPTY = {
  task: "",
  target: null,
  name: "",
  when: "",
  tz: zone,
  start_at: "",
  end_at: "",
  exclude: null,
  not_on: "",
  args: "{}",
  queue: "",
  priority: "",
  tags: "",
  retries: "",
  timeout: "",
  overlap: "",
  key: "",
  owner: "",
};

const text = (value) => JSON.stringify(value, null, 2);
const list = (value) => value.split(",").map((each) => each.trim()).filter(Boolean);
const orNull = (value) => value.trim() || null;
const daysOf = (exclude) => (exclude ? [...exclude.weekdays, ...exclude.dates, ...exclude.calendars].join(", ") : "");

/** What the form shows of a job wherever it goes. */
const common = (job) => ({
  ...EMPTY,
  task: job.task,
  name: job.name || "",
  queue: job.queue,
  priority: job.priority,
  tags: job.tags.join(", "),
  retries: String(job.retry.retries),
  timeout: job.timeout === null ? "" : String(job.timeout),
});

/** A job that is edited. */
export const valuesOf = (job) => ({
  ...common(job),
  target: job.target && text(job.target),
  args: text(job.args),
  when: job.schedule.exact,
  tz: job.schedule.tz,
  start_at: job.schedule.start_at || "",
  end_at: job.schedule.end_at || "",
  exclude: job.schedule.exclude || null,
  not_on: daysOf(job.schedule.exclude),
  overlap: job.overlap,
});

const isTarget = (run) => run.task.startsWith("duetime.");

/** Whether a run can be submitted with changes: mail is duetime's own, and nobody submits it. */
export const isReplayable = (run) => !run.task.startsWith("duetime.email");

/** A job that does once more what a run did: all that says how it runs, and nothing of when. */
export const valuesOfRun = (run, job) => ({
  ...common(job),
  ...(isTarget(run) ? { target: text(run.args) } : { args: text(run.args) }),
  owner: job.owner || "",
});

/** What the form does not show of a job, for one that does the same. */
export const unshownOf = (job) => ({
  retry: job.retry,
  delivery: job.delivery,
  payload_ref: job.payload_ref,
  warn_after: job.warn_after,
  ...(job.concurrency_key && { concurrency_key: job.concurrency_key, concurrency: job.concurrency }),
  ...(job.rate_key && { rate_key: job.rate_key, rate: job.rate }),
});

/** The days to leave out: what is neither a date nor a day of the week is a calendar. */
function excludeOf({ exclude, not_on }) {
  if (not_on === daysOf(exclude)) return exclude;
  const days = list(not_on);
  const isWeekday = (day) => WEEKDAYS.includes(day.toUpperCase());
  const isDate = (day) => /^\d{4}-\d\d-\d\d$/.test(day);
  if (!days.length) return null;
  return {
    weekdays: days.filter(isWeekday).map((day) => day.toUpperCase()),
    dates: days.filter(isDate),
    calendars: days.filter((day) => !isWeekday(day) && !isDate(day)),
    instead: exclude ? exclude.instead : "skip",
  };
}

/** A schedule is given whole, with its bounds; without a time a job runs now. Bounds without a time are sent, too: the
 * server says that they mean nothing then, while a job that ran at once would not be what was asked for. */
export function scheduleOf(values) {
  const bounds = { start_at: orNull(values.start_at), end_at: orNull(values.end_at), exclude: excludeOf(values) };
  if (values.when.trim()) return { when: values.when.trim(), tz: values.tz, ...bounds };
  return Object.fromEntries(Object.entries(bounds).filter(([, value]) => value !== null));
}

/** The fields of a request. What is empty is null: for a new job as its task says, for an edited one none. */
export const fieldsOf = (values) => ({
  ...(values.target === null ? { task: values.task.trim(), args: JSON.parse(values.args || "{}") } : { target: JSON.parse(values.target) }),
  ...scheduleOf(values),
  name: orNull(values.name),
  queue: orNull(values.queue),
  priority: values.priority || null,
  tags: list(values.tags),
  retries: values.retries === "" ? null : Number(values.retries),
  timeout: /^[0-9.]+$/.test(values.timeout) ? Number(values.timeout) : orNull(values.timeout),
  overlap: values.overlap || null,
  key: orNull(values.key),
  owner: orNull(values.owner),
});

/** What an edit changes, and what takes it back. */
export function changesOf(start, values) {
  const was = fieldsOf(start);
  const wanted = fieldsOf(values);
  const differs = (name) => JSON.stringify(was[name]) !== JSON.stringify(wanted[name]);
  const names = Object.keys(wanted).filter((name) => name !== "task" && differs(name));
  const all = names.some((name) => SCHEDULE.includes(name)) ? new Set([...names, ...SCHEDULE]) : names;
  const pick = (fields) => Object.fromEntries([...all].map((name) => [name, fields[name]]));
  return { body: pick(wanted), back: pick(was) };
}
