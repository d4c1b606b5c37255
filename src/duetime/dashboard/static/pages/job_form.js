// Making and changing a job: the schedule is explained, and its next fires are shown, while one types.

import { go, useData } from "../core/data.js";
import { act } from "../core/doing.js";
import { ask, get, post } from "../core/http.js";
import { EMPTY, changesOf, fieldsOf, scheduleOf, unshownOf, valuesOf, valuesOfRun } from "../core/job_fields.js";
import { html, useEffect, useState } from "../core/view.js";
import { zone } from "../core/words.js";
import { Head, Loading, Wrong } from "../parts/basics.js";
import { nameOf } from "../parts/job_actions.js";
import { FireList } from "./job.js";

const PATIENCE = 220;
const SENT_AS = { not_on: "exclude" };
const ZONES = Intl.supportedValuesOf ? ["UTC", ...Intl.supportedValuesOf("timeZone")] : ["UTC", zone];

export function NewJob({ query }) {
  const { data, error } = useData(
    async (signal) => {
      if (!query.from) return { values: EMPTY, title: "New job" };
      const run = await get(`/v1/runs/${query.from}`, {}, signal);
      const job = await get(`/v1/jobs/${run.job_id}`, {}, signal);
      return { values: valuesOfRun(run, job), title: "Replay with changes", job, shut: run.args_problem };
    },
    ["new job", query.from],
  );
  if (error) return html`<${Head} title="New job" /><${Wrong} error=${error} />`;
  if (!data) return html`<${Head} title="New job" /><${Loading} />`;
  const save = async (values) => {
    const made = await post("/v1/jobs", { ...(data.job && unshownOf(data.job)), ...fieldsOf(values) });
    await act(async () => made, made.warnings.length ? `Stored, but ${made.warnings[0]}` : "The job is stored");
    go(made.run_id ? `/runs/${made.run_id}` : `/jobs/${made.job_id}`);
  };
  const what = data.values.target === null ? "arguments" : "target";
  const then = data.shut ? `Its ${what} cannot be opened: write anew what it shall be.` : `You may change its ${what}.`;
  const words = data.job ? `A new run of ${nameOf(data.job)}. ${then}` : "Say what to do, and when.";
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
  return html`<${Head} title=${`Edit ${nameOf(job)}`}>Another schedule counts from now; nothing is owed for its past.</${Head}>
    <${Form} start=${start} save=${save} verb="Save" fixed />`;
}

function Form({ start, save, verb, fixed = false }) {
  const [values, setValues] = useState(start);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const { data: tasks } = useData((signal) => get("/v1/tasks", {}, signal), ["tasks"]);
  const set = (name) => (event) => setValues((was) => ({ ...was, [name]: event.target.value }));
  const isWrong = (name) => error && error.field === (SENT_AS[name] || name);
  const field = (name, more = {}) => ({
    id: name,
    name,
    value: values[name],
    onInput: set(name),
    "aria-invalid": isWrong(name) ? "true" : null,
    "aria-describedby": isWrong(name) ? "form-error" : null,
    ...more,
  });
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await save(values);
    } catch (problem) {
      const [field, words] = values.target === null ? ["args", "The arguments are"] : ["target", "The target is"];
      setError(problem instanceof SyntaxError ? { field, message: `${words} not JSON: ${problem.message}` } : problem);
    }
    setBusy(false);
  };
  return html`<div class="two">
    <form class="card form" onSubmit=${submit} aria-label=${verb}>
      <label><span>Task</span>
        <input ...${field("task", { required: true, disabled: fixed || values.target !== null, list: "task-names", autocomplete: "off", placeholder: "reports.send" })} />
        <datalist id="task-names">${tasks && tasks.items.map((task) => html`<option key=${task.name} value=${task.name} />`)}</datalist>
      </label>
      <label><span>Name</span><input ...${field("name", { placeholder: "Weekly report", autocomplete: "off" })} /></label>
      <div class="pair">
        <label><span>When</span><input ...${field("when", { required: fixed, placeholder: "every weekday at 9am", autocomplete: "off", spellcheck: false })} /></label>
        <label><span>Time zone</span>
          <input ...${field("tz", { list: "zones", autocomplete: "off" })} />
          <datalist id="zones">${ZONES.map((name) => html`<option key=${name} value=${name} />`)}</datalist>
        </label>
      </div>
      ${values.target === null
        ? html`<label><span>Arguments, as JSON</span><textarea ...${field("args", { spellcheck: false, rows: 6 })}></textarea></label>`
        : html`<label><span>Target, as JSON</span><textarea ...${field("target", { spellcheck: false, rows: 8 })}></textarea></label>`}
      <details class="more" open=${fixed}>
        <summary>Queue, priority, retries and more</summary>
        <div class="form">
          <div class="pair">
            <label><span>Queue</span><input ...${field("queue", { required: fixed, placeholder: "as its task says" })} /></label>
            <label><span>Priority</span>
              <select ...${field("priority", { onChange: set("priority") })}>
                ${!fixed && html`<option value="">as its task says</option>`}
                ${["HIGH", "MEDIUM", "LOW"].map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
              </select>
            </label>
          </div>
          <div class="pair">
            <label><span>Retries</span><input ...${field("retries", { required: fixed, type: "number", min: 0, max: 1000, placeholder: "as its task says" })} /></label>
            <label><span>Timeout</span><input ...${field("timeout", { placeholder: fixed ? "none; such as 90s" : "as its task says" })} /></label>
            <label><span>When it overlaps</span>
              <select ...${field("overlap", { onChange: set("overlap") })}>
                ${!fixed && html`<option value="">as usual</option>`}
                ${["allow", "skip", "queue", "replace"].map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
              </select>
            </label>
          </div>
          <div class="pair">
            <label><span>Not before</span><input ...${field("start_at", { placeholder: "2027-01-31T00:00:00Z", autocomplete: "off" })} /></label>
            <label><span>Not after</span><input ...${field("end_at", { placeholder: "2027-12-31T00:00:00Z", autocomplete: "off" })} /></label>
          </div>
          <label><span>Not on (days, dates, calendars)</span><input ...${field("not_on", { placeholder: "SAT, SUN, 2027-12-24, holidays", autocomplete: "off" })} /></label>
          <label><span>Tags, with commas</span><input ...${field("tags", { placeholder: "reports, weekly" })} /></label>
          ${!fixed && html`<div class="pair">
            <label><span>Key</span><input ...${field("key", { placeholder: "one live job per key" })} /></label>
            <label><span>Owner</span><input ...${field("owner")} /></label>
          </div>`}
        </div>
      </details>
      ${error && html`<p id="form-error" class="wrong" role="alert">${error.field ? `${error.field}: ` : ""}${error.message}${error.remedy ? ` – ${error.remedy}` : ""}</p>`}
      <div class="buttons">
        <button class="main" disabled=${busy}>${verb}</button>
        <button type="button" onClick=${() => history.back()}>Leave it</button>
      </div>
    </form>
    <${Preview} schedule=${scheduleOf(values)} />
  </div>`;
}

function Preview({ schedule }) {
  const [asked, setAsked] = useState(schedule);
  useEffect(() => {
    const timer = setTimeout(() => setAsked(schedule), PATIENCE);
    return () => clearTimeout(timer);
  }, [JSON.stringify(schedule)]);
  const isNow = !Object.keys(asked).length;
  const { data, error } = useData(
    (signal) => (isNow ? null : ask("POST", "/v1/schedules/preview", { body: { ...asked, count: 6 }, signal })),
    ["preview", asked],
  );
  return html`<aside class="card preview" aria-live="polite" aria-label="What the schedule means">
    <h2>What this means</h2>
    ${isNow && html`<p class="sentence">Once, right away</p>`}
    ${!isNow && error && html`<p class="wrong">${error.message}${error.remedy ? ` – ${error.remedy}` : ""}</p>`}
    ${!isNow && data && html`<p class="sentence">${data.schedule.sentence}</p>
      <p class="hint"><code>${data.schedule.exact}</code></p>
      <${FireList} fires=${data.fires} />
      ${!data.fires.length && html`<p class="soft">It will not fire: ${data.reason}.</p>`}`}
    <p class="hint">Words (<q>every monday at 8am</q>), cron lines (<code>0 9 * * 1-5</code>), recurrence rules (<code>FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0</code>), intervals (<code>15m</code>) or a moment.</p>
  </aside>`;
}
