// The form that creates or edits a job. The preview explains the schedule and shows its next fires while the user types.

import { go, useData } from "../core/data.js";
import { act } from "../core/doing.js";
import { ask, get, post } from "../core/http.js";
import { boundsOf, changesOf, empty, exampleOf, fieldsOf, isList, isNumber, isObject, scheduleOf, valuesOf, valuesOfRun } from "../core/job_fields.js";
import { OPTIONS } from "../core/job_options.js";
import { readJson } from "../core/json.js";
import { fits, formOf } from "../core/schema.js";
import { isScoped } from "../core/session.js";
import { html, useEffect, useState } from "../core/view.js";
import { ZONES } from "../core/zone.js";
import { Head, Loading, Wrong } from "../parts/basics.js";
import { nameOf } from "../parts/job_actions.js";
import { SchemaFields } from "../parts/schema_fields.js";
import { FireList } from "./job.js";

const TYPING_PAUSE = 220;
const COMMON = ["name", "when", "tz"];
const LABELS = { tz: "Time zone" };

export function NewJob({ query }) {
  const { data, error } = useData(
    async (signal) => {
      if (!query.from) return { values: empty(), title: "New job" };
      const run = await get(`/v1/runs/${query.from}`, {}, signal);
      const job = await get(`/v1/jobs/${run.job_id}`, {}, signal);
      return { values: valuesOfRun(run, job), title: "Replay with changes", job, shut: run.args_problem };
    },
    ["new job", query.from],
  );
  if (error) return html`<${Head} title="New job" /><${Wrong} error=${error} />`;
  if (!data) return html`<${Head} title="New job" /><${Loading} />`;
  const save = async (values) => {
    const made = await post("/v1/jobs", fieldsOf(values));
    await act(async () => made, made.warnings.length ? `Job created. Warning: ${made.warnings[0]}` : "Job created");
    go(made.run_id ? `/runs/${made.run_id}` : `/jobs/${made.job_id}`);
  };
  const what = data.values.target === null ? "arguments" : "target";
  const then = data.shut ? `Its ${what} cannot be decrypted: enter new ${what}.` : `You can change its ${what}.`;
  const words = data.job ? `A new run of ${nameOf(data.job)}. ${then}` : "Choose a task, its arguments and a schedule.";
  return html`<${Head} title=${data.title}>${words}</${Head}><${Form} start=${data.values} save=${save} verb=${data.job ? "Replay" : "Create"} />`;
}

export function EditJob({ id }) {
  const { data: job, error } = useData((signal) => get(`/v1/jobs/${id}`, {}, signal), ["edit", id]);
  if (error) return html`<${Head} title="Edit job" /><${Wrong} error=${error} />`;
  if (!job) return html`<${Head} title="Edit job" /><${Loading} />`;
  const start = valuesOf(job);
  const patch = (body, version) => ask("PATCH", `/v1/jobs/${id}`, { body, headers: { "If-Match": String(version) } });
  const save = async (values) => {
    const { body, back } = changesOf(start, values);
    const changed = await patch(body, job.version);
    await act(async () => changed, `Changed ${nameOf(job)}`, { undo: () => patch(back, changed.version) });
    go(`/jobs/${id}`);
  };
  return html`<${Head} title=${`Edit ${nameOf(job)}`}>A new schedule starts now. It makes no runs for the past.</${Head}>
    <${Form} start=${start} save=${save} verb="Save" fixed />`;
}

function Form({ start, save, verb, fixed = false }) {
  const [values, setValues] = useState(start);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const { data: tasks } = useData((signal) => (isScoped() ? null : get("/v1/tasks", {}, signal)), ["tasks"]);
  const set = (name) => (event) => setValues((was) => ({ ...was, [name]: event.target.value }));
  const isWrong = (name) => error && (error.field || "").split(/[.[]/)[0] === name;
  const field = (name, more = {}) => ({
    id: name,
    name,
    value: values[name],
    onInput: set(name),
    autocomplete: "off",
    "aria-invalid": isWrong(name) ? "true" : null,
    "aria-describedby": isWrong(name) ? "form-error" : `${name}-hint`,
    ...more,
  });
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await save(values);
    } catch (problem) {
      setError(problem);
    }
    setBusy(false);
  };
  // An edit sends the whole schedule as one text.
  const offered = OPTIONS.filter((each) => !fixed || (each.of_edits && (each.schedule !== "kind" || each.name === "when")));
  const option = (each, more = {}) =>
    html`<${Field} key=${each.name} option=${each} field=${field} fixed=${fixed} needed=${fixed && !each.removable && !isList(each) && start[each.name]} ...${more} />`;
  const named = (name, more) => option(offered.find((each) => each.name === name), more);
  const others = offered.filter((each) => !COMMON.includes(each.name));
  const groups = [...new Set(others.map((each) => each.group))];
  return html`<div class="two">
    <form class="card form" onSubmit=${submit} aria-label=${verb}>
      <label><span>Task</span>
        <input ...${field("task", { required: true, disabled: fixed || values.target !== null, list: "task-names", placeholder: "reports.send" })} />
        <datalist id="task-names">${tasks && tasks.items.map((task) => html`<option key=${task.name} value=${task.name} />`)}</datalist>
      </label>
      ${named("name", { example: "Weekly report" })}
      <div class="pair">
        ${named("when", { example: "every weekday at 9am" })}
        ${named("tz", { choices: "zones" })}
        <datalist id="zones">${ZONES.map((name) => html`<option key=${name} value=${name} />`)}</datalist>
      </div>
      ${values.target === null
        ? html`<${Arguments} key=${values.task} task=${values.task.trim()} tasks=${tasks} text=${values.args} field=${field} error=${error}
            change=${(args) => setValues((was) => ({ ...was, args }))} />`
        : html`<label><span>Target, as JSON</span><textarea ...${field("target", { spellcheck: false, rows: 8 })}></textarea></label>`}
      <details class="more" open=${fixed}>
        <summary>More options</summary>
        <div class="form">
          ${groups.map((group) => html`<fieldset key=${group}>
            <legend>${group}</legend>
            <div class="pair">${others.filter((each) => each.group === group).map((each) => option(each))}</div>
          </fieldset>`)}
        </div>
      </details>
      ${error && html`<p id="form-error" class="wrong" role="alert">${error.field ? `${error.field}: ` : ""}${error.message}${error.remedy ? ` – ${error.remedy}` : ""}</p>`}
      <div class="buttons">
        <button class="main" disabled=${busy}>${verb}</button>
        <button type="button" onClick=${() => history.back()}>Cancel</button>
      </div>
    </form>
    <${Preview} schedule=${scheduleOf(values)} />
  </div>`;
}

/** The arguments: a field for each, if the schema of the task is known, or JSON. */
function Arguments({ task, tasks, text, field, error, change }) {
  const isKnown = Boolean(tasks && tasks.items.some((each) => each.name === task));
  const { data } = useData((signal) => (isKnown ? get(`/v1/tasks/${encodeURIComponent(task)}`, {}, signal) : null), ["task", task, isKnown]);
  const [asJson, setAsJson] = useState(false);
  const form = data && data.arguments ? formOf(data.arguments, data.arguments) : null;
  const args = parsed(text);
  const canBeFields = form !== null && form.kind === "object" && form.properties().length > 0 && args !== null && fits(args, form);
  if (!canBeFields || asJson) {
    return html`<div>
      <label><span>Arguments, as JSON</span><textarea ...${field("args", { spellcheck: false, rows: 6 })}></textarea></label>
      ${canBeFields && html`<button type="button" onClick=${() => setAsJson(false)}>As fields</button>`}
    </div>`;
  }
  return html`<fieldset>
    <legend>Arguments</legend>
    <${SchemaFields} form=${form} value=${args} set=${(next) => change(JSON.stringify(next, null, 2))} path="args" error=${error} plain />
    <div><button type="button" onClick=${() => setAsJson(true)}>As JSON</button></div>
  </fieldset>`;
}

function parsed(text) {
  try {
    const found = readJson(text || "{}");
    return found && typeof found === "object" && !Array.isArray(found) ? found : null;
  } catch {
    return null;
  }
}

/** One option: an input that fits its schema, and its help text. */
function Field({ option, field, fixed, needed, example, choices }) {
  const { name, schema } = option;
  const bounds = boundsOf(option);
  const usual = fixed ? "none" : option.of_tasks ? "default of the task" : "default";
  const given = example || exampleOf(option);
  const more = { required: Boolean(needed), spellcheck: false, placeholder: given || (fixed || option.of_tasks ? usual : "") };
  const input = option.choices
    ? html`<select ...${field(name, { onChange: field(name).onInput })}>
        ${!needed && html`<option value="">${usual}</option>`}
        ${option.choices.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
      </select>`
    : isNumber(option)
      ? html`<input ...${field(name, { ...more, type: "number", min: bounds.minimum, max: bounds.maximum })} />`
      : isObject(option)
        ? html`<textarea ...${field(name, { ...more, rows: 2 })}></textarea>`
        : html`<input ...${field(name, { ...more, maxlength: schema.maxLength, list: choices || null })} />`;
  return html`<div>
    <label><span>${LABELS[name] || labelOf(name)}</span>${input}</label>
    <p class="hint" id=${`${name}-hint`}>${schema.description.split("`").map((part, index) => (index % 2 ? html`<code>${part}</code>` : part))}</p>
  </div>`;
}

const labelOf = (name) => name[0].toUpperCase() + name.slice(1).replaceAll("_", " ");

function Preview({ schedule }) {
  const [asked, setAsked] = useState(schedule);
  useEffect(() => {
    const timer = setTimeout(() => setAsked(schedule), TYPING_PAUSE);
    return () => clearTimeout(timer);
  }, [JSON.stringify(schedule)]);
  const isNow = !Object.keys(asked).length;
  const { data, error } = useData(
    (signal) => (isNow ? null : ask("POST", "/v1/schedules/preview", { body: { ...asked, count: 6 }, signal })),
    ["preview", asked],
  );
  return html`<aside class="card preview" aria-live="polite" aria-label="Schedule preview">
    <h2>Schedule preview</h2>
    ${isNow && html`<p class="sentence">Runs once, now.</p>`}
    ${!isNow && error && html`<p class="wrong">${error.message}${error.remedy ? ` – ${error.remedy}` : ""}</p>`}
    ${!isNow && data && html`<p class="sentence">${data.schedule.sentence}</p>
      <p class="hint"><code>${data.schedule.exact}</code></p>
      <${FireList} fires=${data.fires} />
      ${!data.fires.length && html`<p class="soft">This schedule never fires: ${data.reason}.</p>`}`}
    <p class="hint">A schedule is words (<q>every monday at 8am</q>), cron lines (<code>0 9 * * 1-5</code>), recurrence rules (<code>FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0</code>), intervals (<code>15m</code>) or a time.</p>
  </aside>`;
}
