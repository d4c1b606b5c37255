// Making and changing a job: the schedule is explained, and its next fires are shown, while one types.

import { go, useData } from "../core/data.js";
import { act } from "../core/doing.js";
import { ask, get, post } from "../core/http.js";
import { html, useEffect, useState } from "../core/view.js";
import { zone } from "../core/words.js";
import { Head, Loading, Wrong } from "../parts/basics.js";
import { nameOf } from "../parts/job_actions.js";
import { FireList } from "./job.js";

const PATIENCE = 220;
const ZONES = Intl.supportedValuesOf ? ["UTC", ...Intl.supportedValuesOf("timeZone")] : ["UTC", zone];

const EMPTY = {
  task: "",
  name: "",
  when: "",
  tz: zone,
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

/** What is in the form for a job; without a schedule it runs now. */
function valuesOf(job, args, { schedule }) {
  return {
    ...EMPTY,
    task: job.task,
    name: job.name || "",
    when: schedule ? job.schedule.exact : "",
    tz: schedule ? job.schedule.tz : zone,
    args: JSON.stringify(args, null, 2),
    queue: job.queue,
    priority: job.priority,
    tags: job.tags.join(", "),
    retries: String(job.retry.retries),
    timeout: job.timeout === null ? "" : String(job.timeout),
    overlap: schedule ? job.overlap : "",
  };
}

/** The fields of a request; what is empty is as the task says, or as the server has it. */
function fieldsOf(values) {
  const fields = {
    task: values.task.trim(),
    args: JSON.parse(values.args || "{}"),
    tags: values.tags.split(",").map((tag) => tag.trim()).filter(Boolean),
  };
  if (values.when.trim()) Object.assign(fields, { when: values.when.trim(), tz: values.tz });
  if (values.name.trim()) fields.name = values.name.trim();
  if (values.queue.trim()) fields.queue = values.queue.trim();
  if (values.priority) fields.priority = values.priority;
  if (values.retries !== "") fields.retries = Number(values.retries);
  if (values.timeout !== "") fields.timeout = /^[0-9.]+$/.test(values.timeout) ? Number(values.timeout) : values.timeout;
  if (values.overlap) fields.overlap = values.overlap;
  if (values.key.trim()) fields.key = values.key.trim();
  if (values.owner.trim()) fields.owner = values.owner.trim();
  return fields;
}

export function NewJob({ query }) {
  const { data, error } = useData(
    async (signal) => {
      if (!query.from) return { values: EMPTY, title: "New job" };
      const run = await get(`/v1/runs/${query.from}`, {}, signal);
      const job = await get(`/v1/jobs/${run.job_id}`, {}, signal);
      return { values: valuesOf(job, run.args, { schedule: false }), title: "Replay with changes", job, shut: run.args_problem };
    },
    ["new job", query.from],
  );
  if (error) return html`<${Head} title="New job" /><${Wrong} error=${error} />`;
  if (!data) return html`<${Head} title="New job" /><${Loading} />`;
  const save = async (values) => {
    const made = await post("/v1/jobs", fieldsOf(values));
    await act(async () => made, made.warnings.length ? `Stored, but ${made.warnings[0]}` : "The job is stored");
    go(made.run_id ? `/runs/${made.run_id}` : `/jobs/${made.job_id}`);
  };
  const then = data.shut ? "Its arguments cannot be opened: write them anew." : "You may change its arguments.";
  const words = data.job ? `A new run of ${nameOf(data.job)}. ${then}` : "Say what to do, and when.";
  return html`<${Head} title=${data.title}>${words}</${Head}><${Form} start=${data.values} save=${save} verb=${data.job ? "Replay" : "Create"} />`;
}

export function EditJob({ id }) {
  const { data: job, error } = useData((signal) => get(`/v1/jobs/${id}`, {}, signal), ["edit", id]);
  if (error) return html`<${Head} title="Edit job" /><${Wrong} error=${error} />`;
  if (!job) return html`<${Head} title="Edit job" /><${Loading} />`;
  const start = valuesOf(job, job.args, { schedule: true });
  const patch = (body, version) => ask("PATCH", `/v1/jobs/${id}`, { body, headers: version ? { "If-Match": String(version) } : {} });
  const save = async (values) => {
    const was = fieldsOf(start);
    const wanted = fieldsOf(values);
    const body = Object.fromEntries(
      Object.entries(wanted).filter(([name, value]) => name !== "task" && JSON.stringify(value) !== JSON.stringify(was[name])),
    );
    if (body.when || body.tz) Object.assign(body, { when: wanted.when, tz: wanted.tz });
    if (!values.timeout && start.timeout) body.timeout = null;
    const back = Object.fromEntries(Object.keys(body).map((name) => [name, was[name] === undefined ? null : was[name]]));
    const changed = await patch(body, job.version);
    await act(async () => changed, `Changed ${nameOf(job)}`, { undo: () => patch(back) });
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
  const field = (name, more = {}) => ({
    id: name,
    name,
    value: values[name],
    onInput: set(name),
    "aria-invalid": error && error.field === name ? "true" : null,
    "aria-describedby": error && error.field === name ? "form-error" : null,
    ...more,
  });
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await save(values);
    } catch (problem) {
      setError(problem instanceof SyntaxError ? { field: "args", message: `The arguments are not JSON: ${problem.message}` } : problem);
    }
    setBusy(false);
  };
  return html`<div class="two">
    <form class="card form" onSubmit=${submit} aria-label=${verb}>
      <label><span>Task</span>
        <input ...${field("task", { required: true, disabled: fixed, list: "task-names", autocomplete: "off", placeholder: "reports.send" })} />
        <datalist id="task-names">${tasks && tasks.items.map((task) => html`<option key=${task.name} value=${task.name} />`)}</datalist>
      </label>
      <label><span>Name</span><input ...${field("name", { placeholder: "Weekly report", autocomplete: "off" })} /></label>
      <div class="pair">
        <label><span>When</span><input ...${field("when", { placeholder: "every weekday at 9am", autocomplete: "off", spellcheck: false })} /></label>
        <label><span>Time zone</span>
          <input ...${field("tz", { list: "zones", autocomplete: "off" })} />
          <datalist id="zones">${ZONES.map((name) => html`<option key=${name} value=${name} />`)}</datalist>
        </label>
      </div>
      <label><span>Arguments, as JSON</span><textarea ...${field("args", { spellcheck: false, rows: 6 })}></textarea></label>
      <details class="more" open=${fixed}>
        <summary>Queue, priority, retries and more</summary>
        <div class="form">
          <div class="pair">
            <label><span>Queue</span><input ...${field("queue", { placeholder: "as its task says" })} /></label>
            <label><span>Priority</span>
              <select ...${field("priority", { onChange: set("priority") })}>
                ${!fixed && html`<option value="">as its task says</option>`}
                ${["HIGH", "MEDIUM", "LOW"].map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
              </select>
            </label>
          </div>
          <div class="pair">
            <label><span>Retries</span><input ...${field("retries", { type: "number", min: 0, max: 1000, placeholder: "as its task says" })} /></label>
            <label><span>Timeout</span><input ...${field("timeout", { placeholder: fixed ? "none; such as 90s" : "as its task says" })} /></label>
            <label><span>When it overlaps</span>
              <select ...${field("overlap", { onChange: set("overlap") })}>
                <option value="">as usual</option>
                ${["allow", "skip", "queue", "replace"].map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
              </select>
            </label>
          </div>
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
    <${Preview} when=${values.when} tz=${values.tz} />
  </div>`;
}

function Preview({ when, tz }) {
  const [asked, setAsked] = useState({ when, tz });
  useEffect(() => {
    const timer = setTimeout(() => setAsked({ when: when.trim(), tz }), PATIENCE);
    return () => clearTimeout(timer);
  }, [when, tz]);
  const { data, error } = useData(
    (signal) => (asked.when ? ask("POST", "/v1/schedules/preview", { body: { ...asked, count: 6 }, signal }) : null),
    ["preview", asked],
  );
  return html`<aside class="card preview" aria-live="polite" aria-label="What the schedule means">
    <h2>What this means</h2>
    ${!asked.when && html`<p class="sentence">Once, right away</p>`}
    ${asked.when && error && html`<p class="wrong">${error.message}${error.remedy ? ` – ${error.remedy}` : ""}</p>`}
    ${asked.when && data && html`<p class="sentence">${data.schedule.sentence}</p>
      <p class="hint"><code>${data.schedule.exact}</code></p>
      <${FireList} fires=${data.fires} />
      ${!data.fires.length && html`<p class="soft">It will not fire.</p>`}`}
    <p class="hint">Words (<q>every monday at 8am</q>), cron lines (<code>0 9 * * 1-5</code>), intervals (<code>15m</code>) or a moment.</p>
  </aside>`;
}
