// A job as the form's values: a text for each option. The options come from the server (job_options.js, made from their
// declaration), so a new option needs no change here. SHORT adds forms that are easier to type than JSON.

import { OPTIONS } from "./job_options.js";
import { readJson } from "./json.js";
import { zone } from "./zone.js";

const WEEKDAYS = ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"];

const json = (value) => JSON.stringify(value, null, 2);
const list = (text) => text.split(",").map((each) => each.trim()).filter(Boolean);
const wrong = (field, message) => Object.assign(new Error(message), { field });

/** The excluded days. A text that is neither a date nor a day of the week is the name of a calendar. */
const DAYS = {
  read: (text) => {
    const isWeekday = (day) => WEEKDAYS.includes(day.toUpperCase());
    const isDate = (day) => /^\d{4}-\d\d-\d\d$/.test(day);
    const days = list(text);
    return {
      weekdays: days.filter(isWeekday).map((day) => day.toUpperCase()),
      dates: days.filter(isDate),
      calendars: days.filter((day) => !isWeekday(day) && !isDate(day)),
    };
  },
  example: "SAT, SUN, 2027-12-24, holidays",
  show: ({ weekdays, dates, calendars, instead }) =>
    instead === "skip" ? [...weekdays, ...dates, ...calendars].join(", ") : null,
};
const SHORT = { exclude: DAYS };

/** The JSON schemas of the values that an option accepts. */
const formsOf = ({ schema }) =>
  (schema.anyOf || [schema]).map((form) => (form.$ref ? schema.$defs[form.$ref.split("/").pop()] : form));
const takes = (option, ...types) => formsOf(option).some((form) => types.includes(form.type));

export const isNumber = (option) => formsOf(option).every((form) => form.type === "integer");
export const isList = (option) => takes(option, "array");
export const boundsOf = (option) => formsOf(option)[0];

/** The only required field of an object: its text is a short form of the object. */
function neededBy(option) {
  const form = formsOf(option).find((each) => each.type === "object");
  const [name, ...more] = (form && form.required) || [];
  return name && !more.length && form.properties[name].type === "string" ? name : null;
}

/** Whether an option must be given as JSON, because it has no shorter form. */
export const isObject = (option) =>
  formsOf(option).every((form) => form.type === "object") && !SHORT[option.name] && !neededBy(option);

/** The value of an option from its text. */
export function read(option, text) {
  const given = text.trim();
  if (takes(option, "object") && given.startsWith("{")) return parsed(given, option.name);
  if (SHORT[option.name]) return SHORT[option.name].read(given);
  if (isList(option)) return list(given);
  if (takes(option, "integer", "number") && /^-?[0-9.]+$/.test(given)) return Number(given);
  const needed = neededBy(option);
  return needed ? { [needed]: given } : given;
}

/** An example text for an option; empty if none is known. */
export const exampleOf = (option) =>
  SHORT[option.name] ? SHORT[option.name].example : show(option, (option.schema.examples || [])[0]);

/** The text of an option from its value. */
export function show(option, value) {
  if (value === null || value === undefined) return "";
  const short = SHORT[option.name] && SHORT[option.name].show(value);
  if (short) return short;
  if (Array.isArray(value)) return value.join(", ");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function parsed(text, field) {
  try {
    return readJson(text);
  } catch (error) {
    throw wrong(field, `is not JSON: ${error.message}`);
  }
}

const textsOf = (options, values) => Object.fromEntries(options.map((each) => [each.name, show(each, values[each.name])]));

/** A job without any values, in the zone of the dashboard. */
export const empty = () => ({ ...textsOf(OPTIONS, {}), task: "", target: null, args: "{}", tz: zone() });

/** The options of a job in the API's form: `retries` is part of `retry`, and a limit belongs to its key. */
const optionsOf = (job) => ({
  ...job,
  retries: job.retry.retries,
  concurrency: job.concurrency_key ? job.concurrency : null,
});

/** A job that is edited. */
export const valuesOf = (job) => ({
  ...empty(),
  ...textsOf(OPTIONS.filter((each) => each.of_edits), { ...optionsOf(job), ...job.schedule, when: job.schedule.exact }),
  task: job.task,
  target: job.target && json(job.target),
  args: json(job.args),
});

const isTarget = (run) => run.task.startsWith("duetime.");

/** Whether a run can be submitted with changes. Mail is duetime's own: callers cannot submit it. */
export const isReplayable = (run) => !run.task.startsWith("duetime.email");

/** A job that repeats a run: with all options except the schedule and the identity. */
export const valuesOfRun = (run, job) => ({
  ...empty(),
  ...textsOf(OPTIONS.filter((each) => each.of_submissions && !each.schedule && each.group !== "Identity"), optionsOf(job)),
  task: job.task,
  ...(isTarget(run) ? { target: json(run.args) } : { args: json(run.args) }),
});

/** The given options. A time zone alone is no schedule, and `run_at` has its own offset. */
function givenOptions(values, options = OPTIONS) {
  const given = options.filter((each) => values[each.name].trim());
  const isZoned = given.some((each) => each.schedule === "kind" && each.name !== "run_at");
  return Object.fromEntries(
    given.filter((each) => each.name !== "tz" || isZoned).map((each) => [each.name, read(each, values[each.name])]),
  );
}

/** The schedule for the preview. An invalid option is sent unchanged, so that the server explains the error. */
export function scheduleOf(values) {
  const options = OPTIONS.filter((each) => each.schedule);
  try {
    return givenOptions(values, options);
  } catch (error) {
    return { ...givenOptions({ ...values, [error.field]: "" }, options), [error.field]: values[error.field] };
  }
}

const contentOf = (values) =>
  values.target === null
    ? { task: values.task.trim(), args: parsed(values.args || "{}", "args") }
    : { target: parsed(values.target, "target") };

/** The fields of a request. Options without a text are omitted. */
export const fieldsOf = (values) => ({ ...contentOf(values), ...givenOptions(values) });

/** The changes of an edit, and their Undo. A schedule is sent as a whole; null removes an option. */
export function changesOf(start, values) {
  const was = fieldsOf(start);
  const wanted = fieldsOf(values);
  const names = new Set(Object.keys({ ...was, ...wanted }).filter((name) => name !== "task"));
  const differs = (name) => JSON.stringify(was[name]) !== JSON.stringify(wanted[name]);
  const changed = new Set([...names].filter(differs));
  const whole = OPTIONS.filter((each) => each.schedule && (each.removable || names.has(each.name)));
  if (whole.some(({ name }) => changed.has(name))) whole.forEach(({ name }) => changed.add(name));
  const lists = new Set(OPTIONS.filter(isList).map((each) => each.name));
  const valueIn = (fields, name) => (name in fields ? fields[name] : lists.has(name) ? [] : null);
  const pick = (fields) => Object.fromEntries([...changed].map((name) => [name, valueIn(fields, name)]));
  return { body: pick(wanted), back: pick(was) };
}
