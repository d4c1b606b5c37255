// One run: its attempts on a timeline, errors, logs and result.

import { go, useData, useNow } from "../core/data.js";
import { act } from "../core/doing.js";
import { get, post } from "../core/http.js";
import { isReplayable } from "../core/job_fields.js";
import { about } from "../core/live.js";
import { isScoped, may } from "../core/session.js";
import { html, useEffect, useRef } from "../core/view.js";
import { length, short, title } from "../core/words.js";
import { askBack } from "../parts/asking.js";
import { Badge, Exact, Head, Loading, Meter, Moment, Wrong, look } from "../parts/basics.js";
import { MaybeInStream } from "../parts/in_streams.js";
import { Logs } from "../parts/logs.js";
import { Masked } from "../parts/masked.js";
import { Why } from "../parts/why.js";

const LIVE = ["PENDING", "BLOCKED", "RUNNING", "RETRYING", "IN_STREAM"];
const WAITS = ["PENDING", "BLOCKED", "RETRYING"];
const isLive = (run) => !run || LIVE.includes(run.status);

export function Run({ id }) {
  const last = useRef(null);
  const load = (signal) => (isLive(last.current) || last.current.run_id !== id ? get(`/v1/runs/${id}`, {}, signal) : last.current);
  const { data: run, error, reload } = useData(load, ["run", id], { live: about(id), every: 1000 });
  useEffect(() => {
    last.current = run || null;
  });
  const names = useWorkers(run);
  if (error && !run) return html`<${Head} title="Run" /><${Wrong} error=${error} />`;
  if (!run) return html`<${Head} title="Run" /><${Loading} />`;
  if (!run.certain) return html`<${MaybeInStream} word="Run" id=${run.run_id} at=${run.due_at} />`;
  return html`<${Head} title=${run.task} buttons=${html`<${Buttons} run=${run} reload=${reload} />`}>
      <${Badge} status=${run.status} /> due <${Moment} at=${run.due_at} />${run.lag !== null ? `, started ${length(run.lag)} later` : ""}${run.retry_delay !== null ? `, last attempt ${length(run.retry_delay)} after that` : ""}
    </${Head}>
    <div class="two">
      <div class="stack">
        <${Why} path=${`/v1/runs/${run.run_id}/why`} shown=${WAITS.includes(run.status)} />
        ${run.status === "RUNNING" && html`<${Progress} run=${run} />`}
        <section class="card" aria-labelledby="timeline">
          <h2 id="timeline">Attempts</h2>
          <${Timeline} run=${run} />
          <${Steps} run=${run} names=${names} />
          ${[...run.attempts].reverse().map((attempt) => html`<${Attempt} key=${attempt.attempt + attempt.finished_at} attempt=${attempt} names=${names} />`)}
          ${!run.attempts.length && html`<p class="soft" style=${{ marginTop: "14px" }}>${run.status === "RUNNING" ? "The first attempt is running." : "No attempts yet."}</p>`}
        </section>
        ${run.result !== null && html`<section class="card" aria-labelledby="result">
          <h2 id="result">Result</h2>
          <pre class="text">${JSON.stringify(run.result, null, 2)}</pre>
        </section>`}
      </div>
      <div class="stack">
        <section class="card" aria-labelledby="facts"><h2 id="facts">Details</h2><${Facts} run=${run} /></section>
        <section class="card" aria-labelledby="args"><h2 id="args">Arguments</h2><${Masked} value=${run.args} problem=${run.args_problem} /></section>
      </div>
    </div>`;
}

function Buttons({ run, reload }) {
  if (!may("control")) return null;
  const over = !isLive(run);
  const retry = () =>
    act(() => post(`/v1/runs/${run.run_id}/retry`), over ? "Created a new run" : "Retrying now", {
      then: (made) => (made.run_id === run.run_id ? reload() : go(`/runs/${made.run_id}`)),
    });
  const stop = async () => {
    const running = run.status === "RUNNING";
    const text = `${running ? "The run is asked to stop and ends as cancelled." : "The run ends as cancelled."} This cannot be undone.`;
    if (await askBack({ title: `Cancel this run of ${run.task}?`, text, yes: "Cancel the run", no: "Keep it" })) {
      await act(() => post(`/v1/runs/${run.run_id}/cancel`), running ? "Asked the run to stop" : "Cancelled", { then: reload });
    }
  };
  const again = run.status === "RETRYING" || (over && run.status !== "SUCCEEDED");
  return html`${again && html`<button class="main" onClick=${retry}>${run.status === "RETRYING" ? "Retry now" : "Retry"}</button>`}
    ${may("submit") && isReplayable(run) && html`<a class="button" href="/jobs/new?from=${run.run_id}">Replay with changes</a>`}
    ${!over && html`<button class="danger" onClick=${stop}>Cancel</button>`}`;
}

function Progress({ run }) {
  const now = useNow();
  const running = length(Math.max(0, Math.floor((now - Date.parse(run.started_at)) / 1000)));
  return html`<section class="card" aria-label="Progress">
    <header><h2>${run.message || "Running"}</h2><span class="soft">${run.progress === null ? "" : `${Math.round(run.progress * 100)} % · `}${running}</span></header>
    <${Meter} share=${run.progress || 0} label="Progress" />
    ${run.logs.length > 0 && html`<${Logs} lines=${run.logs} label="Log of the current attempt" live />`}
  </section>`;
}

/** The phases of a run: waiting, running, backing off. */
function stretches(run, now) {
  const found = [];
  let at = Date.parse(run.due_at);
  const add = (until, kind, says) => {
    if (until > at) found.push({ seconds: (until - at) / 1000, kind, says });
    at = Math.max(at, until);
  };
  run.attempts.forEach((attempt, place) => {
    if (!attempt.started_at) return;
    add(Date.parse(attempt.started_at), "waits", place ? "waited for its retry" : "waited");
    add(Date.parse(attempt.finished_at), look(attempt.status) || "none", `attempt ${place + 1} ${attempt.status.toLowerCase()} after`);
  });
  if (run.status === "RUNNING") {
    add(Date.parse(run.started_at), "waits", "waited");
    add(Math.max(now, at + 1), "busy", "running");
  } else if (LIVE.includes(run.status)) add(now, "waits", "waiting");
  return found;
}

function Timeline({ run }) {
  const now = useNow();
  const found = stretches(run, now);
  if (!found.length) return null;
  const words = found.map((each) => `${each.says} ${length(each.seconds)}`);
  const total = found.reduce((sum, each) => sum + each.seconds, 0);
  return html`<div class="timeline" role="img" aria-label=${words.join(", ")}>
      ${found.map((each, place) => html`<i key=${place} class=${each.kind} title=${words[place]} style=${{ flexGrow: (1000 * each.seconds) / total }}></i>`)}
    </div>
    <p class="hint">${words.join(" · ")}</p>`;
}

/** The names of the workers that had the run, as far as they are known. */
function useWorkers(run) {
  const some = Boolean(run && !isScoped() && (run.worker_id || run.attempts.some((attempt) => attempt.worker_id)));
  const { data } = useData((signal) => (some ? get("/v1/workers", {}, signal) : null), ["names of workers", some]);
  return new Map(data ? [...data.items, ...data.past].map((worker) => [worker.worker_id, worker.name]) : []);
}

const Worker = ({ id, names }) => (id ? html` on <span title=${id}>${names.get(id) || short(id)}</span>` : null);

/** What happened to a run, in order. */
function steps(run) {
  const found = [{ at: run.due_at, says: "due" }];
  run.attempts.forEach((attempt) => {
    if (attempt.started_at) found.push({ at: attempt.started_at, says: `attempt ${attempt.attempt} started`, worker: attempt.worker_id });
    const how = attempt.status === "LOST" ? "lost its worker" : attempt.status.toLowerCase();
    found.push({ at: attempt.finished_at, says: `${attempt.started_at ? `attempt ${attempt.attempt} ` : ""}${how}`, took: attempt.duration, status: attempt.status });
  });
  if (run.status === "RUNNING") found.push({ at: run.started_at, says: `attempt ${run.attempt} started`, worker: run.worker_id, status: "RUNNING" });
  if (run.status === "RETRYING") found.push({ at: run.ready_at, says: "next attempt", status: "RETRYING" });
  if (run.finished_at) found.push({ at: run.finished_at, says: `run ${run.status.toLowerCase()}`, status: run.status });
  return found;
}

function Steps({ run, names }) {
  const due = Date.parse(run.due_at);
  return html`<ol class="steps" aria-label="What happened">
    ${steps(run).map((step, place) => html`<li key=${place} class=${look(step.status)}>
      <${Exact} at=${step.at} /><span class="soft small nowrap">${place && Date.parse(step.at) >= due ? `+${length((Date.parse(step.at) - due) / 1000)}` : ""}</span>
      <span>${step.says}<${Worker} id=${step.worker} names=${names} />${step.took === undefined || step.took === null ? "" : ` after ${length(step.took)}`}</span>
    </li>`)}
  </ol>`;
}

function Attempt({ attempt, names }) {
  return html`<article class="attempt">
    <header>
      <h3>Attempt ${attempt.attempt}</h3>
      <${Badge} status=${attempt.status} word=${title(attempt.status) + (attempt.failure && attempt.failure !== "error" ? `: ${attempt.failure.replaceAll("_", " ")}` : "")} />
      <span class="soft small">${attempt.started_at ? html`took ${length(attempt.duration)}<${Worker} id=${attempt.worker_id} names=${names} />` : html`<${Exact} at=${attempt.finished_at} />`}</span>
    </header>
    ${attempt.error && html`<pre class="text" tabindex="0" aria-label="Error">${attempt.error}</pre>`}
    ${attempt.logs.length > 0 && html`<${Logs} lines=${attempt.logs} label=${`Log of attempt ${attempt.attempt}`} />`}
  </article>`;
}

function Facts({ run }) {
  const items = [
    ["Job", html`<a href="/jobs/${run.job_id}"><code class="small">${run.job_id}</code></a>`],
    ["Run", html`<code class="small">${run.run_id}</code>`],
    ["Due", html`<${Exact} at=${run.due_at} />`],
    ["Started", html`<${Exact} at=${run.first_started_at} />`],
    ["Last attempt", run.retry_delay !== null && html`<${Exact} at=${run.started_at} />`],
    ["Finished", html`<${Exact} at=${run.finished_at} />`],
    ["Attempts", `${run.attempt}${run.lost ? `, ${run.lost} lost` : ""}`],
    ["Queue", `${run.queue}, ${title(run.priority)} priority`],
    ["Worker", run.worker_id && html`<a href="/workers"><code class="small">${run.worker_id}</code></a>`],
    ["Replay of", run.replays && html`<a href="/runs/${run.replays}"><code class="small">${run.replays}</code></a>`],
    ["Trace", run.trace_id && html`<code class="small">${run.trace_id}</code>`],
  ];
  return html`<dl class="facts">${items.filter(([, value]) => value).map(([name, value]) => html`<dt key=${name}>${name}</dt><dd>${value}</dd>`)}</dl>`;
}
