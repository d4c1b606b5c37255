// One job: its definition, its runs and its next fires.

import { go, useData } from "../core/data.js";
import { ask, get } from "../core/http.js";
import { anything } from "../core/live.js";
import { useList } from "../core/pages.js";
import { placeIn } from "../core/place.js";
import { html } from "../core/view.js";
import { date, length, moment, number, relative, title } from "../core/words.js";
import { wallAt, zone } from "../core/zone.js";
import { Badge, Bars, Exact, Head, Loading, Moment, NoneFound, Pager, Wrong } from "../parts/basics.js";
import { MaybeInStream } from "../parts/in_streams.js";
import { JobButtons, isOver, nameOf } from "../parts/job_actions.js";
import { Masked } from "../parts/masked.js";
import { RunTable } from "../parts/run_table.js";
import { Why } from "../parts/why.js";

export function Job({ id, query }) {
  const { data: job, error, reload } = useData((signal) => get(`/v1/jobs/${id}`, {}, signal), ["job", id], { live: anything });
  const place = placeIn(query);
  const { cursor } = place;
  const { data: runs } = useList(`/v1/jobs/${id}/runs`, { page_size: 20, cursor }, ["runs of", id, cursor], { live: anything });
  const { data: recent } = useData((signal) => get("/v1/recent-runs", { job_ids: id, count: 30 }, signal), ["recent", id], {
    live: anything,
  });
  if (error && !job) return html`<${Head} title="Job" /><${Wrong} error=${error} />`;
  if (!job) return html`<${Head} title="Job" /><${Loading} />`;
  if (!job.certain) return html`<${MaybeInStream} word="Job" id=${job.job_id} at=${job.created_at} />`;
  const over = (answer) => (answer && answer.deleted ? go("/jobs") : reload());
  return html`<${Head} title=${nameOf(job)} buttons=${html`<${JobButtons} job=${job} then=${over} all />`}>
      ${job.schedule.sentence}${job.recurring && job.schedule.tz !== "UTC" ? ` (${job.schedule.tz})` : ""}
    </${Head}>
    ${job.problem && html`<p class="trouble-line">Paused, because it cannot be processed: ${job.problem}</p>`}
    <div class="two">
      <div class="stack">
        <${Why} path=${`/v1/jobs/${id}/why`} shown=${!isOver(job)} />
        <section class="card" aria-labelledby="how">
          <header>
            <h2 id="how">Last runs</h2>
            <${Badge} status=${job.status} />
          </header>
          <${Bars} runs=${recent && recent.items[0] ? recent.items[0].runs : null} places=${30} />
        </section>
        <section aria-labelledby="runs">
          <h2 id="runs" class="hidden-words">Runs</h2>
          ${runs && runs.items.length > 0 && html`<${RunTable} runs=${runs.items} withTask=${false} />`}
          ${runs && !runs.items.length && html`<${NoneFound} page=${runs} place=${place} word="runs" title="No runs yet." />`}
          <${Pager} page=${runs} place=${place} word="runs" />
        </section>
      </div>
      <div class="stack">
        <section class="card" aria-labelledby="next">
          <header>
            <h2 id="next">Next run</h2>
            <${Moment} at=${job.next_run} none="none" />
          </header>
          ${job.recurring && job.next_run ? html`<${Next} job=${job} />` : html`<${Exact} at=${job.next_run} />`}
        </section>
        <section class="card" aria-labelledby="facts">
          <h2 id="facts">Details</h2>
          <${Facts} job=${job} />
        </section>
        <section class="card" aria-labelledby="args">
          <h2 id="args">Arguments</h2>
          <${Masked} value=${job.args} problem=${job.args_problem} />
        </section>
      </div>
    </div>`;
}

const SHOWN = 5;

/** The next fires: of the whole schedule, and no more than `max_runs` lets the job make. Runs that are made ahead of their
 * time are counted in `made` already. */
function Next({ job }) {
  const { exact, tz, start_at, end_at, exclude } = job.schedule;
  const bounds = { start_at, end_at, exclude };
  const given = Object.fromEntries(Object.entries(bounds).filter(([, value]) => value !== null));
  const body = { schedule: exact, tz, ...given, start: job.next_run, count: SHOWN };
  const { data } = useData(
    async (signal) => {
      const [{ fires }, ahead] = await Promise.all([
        ask("POST", "/v1/schedules/preview", { body, signal }),
        job.max_runs === null ? null : get(`/v1/jobs/${job.job_id}/runs`, { start_time: job.next_run, page_size: SHOWN }, signal),
      ]);
      const left = ahead ? job.max_runs - job.made + ahead.items.length : SHOWN;
      return { fires: fires.slice(0, left), isLast: left < SHOWN || fires.length < SHOWN };
    },
    ["next", body, job.made, job.max_runs],
  );
  if (!data || !data.fires.length) return html`<${Exact} at=${job.next_run} />`;
  return html`<${FireList} fires=${data.fires} />${data.isLast && html`<p class="hint">These are its last runs.</p>`}`;
}

/** A fire in its own time zone. */
const wall = (local) => `${date(local.slice(0, 10))} ${local.slice(0, 4)}, ${local.slice(11, local.slice(17, 19) === "00" ? 16 : 19)}`;

function sameHere(fire) {
  const here = wallAt(fire.utc);
  return here.hour === Number(fire.local.slice(11, 13)) && here.day === Number(fire.local.slice(8, 10));
}

export const FireList = ({ fires }) => html`<ol class="fires">
  ${fires.map(
    (fire) => html`<li key=${fire.utc}>
      <span>${wall(fire.local)}</span>
      <span class="soft small">${sameHere(fire) ? relative(fire.utc) : `${moment(fire.utc)} in ${zone()}`}</span>
      ${fire.note && html`<span class="badge warn">${fire.note}</span>`}
    </li>`,
  )}
</ol>`;

function Facts({ job }) {
  const items = [
    ["Task", html`<code>${job.task}</code>`],
    ["Schedule", html`<code>${job.schedule.exact}</code>`],
    ["Queue", `${job.queue}, ${title(job.priority)} priority`],
    ["Retries", `${job.retry.retries}, backoff from ${length(job.retry.base)}`],
    ["Timeout", job.timeout === null ? "none" : length(job.timeout)],
    ["Misfire", `${job.misfire.mode} (after ${length(job.misfire.after)})`],
    ["Overlap", job.overlap],
    ["Delivery", job.delivery.replaceAll("_", " ")],
    ["Runs created", `${number(job.made)}${job.missed ? `, ${number(job.missed)} missed` : ""}`],
    ["Tags", job.tags.length ? job.tags.map((tag) => html`<a class="tag" key=${tag} href="/jobs?tag=${encodeURIComponent(tag)}">${tag}</a> `) : null],
    ["Owner", job.owner],
    ["Key", job.key && html`<code>${job.key}</code>`],
    ["Created", html`<${Exact} at=${job.created_at} />`],
    ["Id", html`<code class="small">${job.job_id}</code>`],
  ];
  return html`<dl class="facts">
    ${items.filter(([, value]) => value !== null && value !== undefined).map(([name, value]) => html`<dt key=${name}>${name}</dt><dd>${value}</dd>`)}
  </dl>`;
}
