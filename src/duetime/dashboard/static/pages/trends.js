// Trends: lag, duration and throughput over the last hour, day or week.

import { go, useData } from "../core/data.js";
import { get } from "../core/http.js";
import { html } from "../core/view.js";
import { length, number } from "../core/words.js";
import { Empty, Head, Loading, Segments, Wrong } from "../parts/basics.js";
import { Chart, Legend } from "../parts/chart.js";

const RANGES = [["hour", "Hour"], ["day", "Day"], ["week", "Week"]];
const OUTCOMES = [
  { name: "succeeded", label: "succeeded", colour: "bar-good", mark: "good" },
  { name: "retried", label: "retried", colour: "bar-warn", mark: "warn" },
  { name: "failed", label: "failed", colour: "bar-bad", mark: "bad" },
];
const SHARES = [
  { name: "p95", label: "95 %", colour: "bar-warn", mark: "warn" },
  { name: "p50", label: "half", colour: "bar-busy", mark: "busy" },
];

export function TrendsPage({ query }) {
  const range = RANGES.some(([name]) => name === query.range) ? query.range : "hour";
  const { data, error } = useData((signal) => get("/v1/trends", { range }, signal), ["trends", range], { every: 30000 });
  const pick = (name) => go(name === "hour" ? "/trends" : `/trends?range=${name}`, { replace: true });
  return html`<${Head} title="Trends" buttons=${html`<${Segments} label="Range" value=${range} onPick=${pick} choices=${RANGES} />`}>
      How late runs started, how long attempts took, and how many ended. A minute appears some seconds after its end.
    </${Head}>
    <${Wrong} error=${error} />
    ${!data && !error && html`<${Loading} />`}
    ${data && html`<${Charts} key=${range} trends=${data} />`}`;
}

function Charts({ trends }) {
  const times = trends.steps.map((step) => Date.parse(step.at) / 1000);
  const ended = trends.steps.reduce((sum, step) => sum + step.succeeded + step.failed, 0);
  if (!ended && !trends.steps.some((step) => step.lag || step.duration)) {
    return html`<div class="card"><${Empty} title="Nothing ended in this time.">Figures begin with the first minute in which a run ends.</${Empty}></div>`;
  }
  return html`<div class="stack">
    <${Times} id="lag" title="Lag: from due to started" steps=${trends.steps} field="lag" times=${times} />
    <${Times} id="took" title="Duration of attempts" steps=${trends.steps} field="duration" times=${times} />
    <section class="card" aria-labelledby="ended">
      <header><h2 id="ended">Ended per second</h2><span class="soft small">${trends.exact ? "" : "≈ "}${number(ended)} runs</span></header>
      <${Chart} times=${times} unit="/s" series=${OUTCOMES.map((each) => ({ ...each, values: trends.steps.map((step) => step[each.name] / trends.step) }))}
        label=${`Runs that ended per second: ${OUTCOMES.map((each) => `${number(trends.steps.reduce((sum, step) => sum + step[each.name], 0))} ${each.label}`).join(", ")}`} />
      <${Legend} series=${OUTCOMES} />
    </section>
  </div>`;
}

function Times({ id, title, steps, field, times }) {
  const series = SHARES.map((each) => ({ ...each, values: steps.map((step) => (step[field] ? step[field][each.name] : null)) }));
  const known = steps.filter((step) => step[field]);
  const last = known[known.length - 1];
  const worst = Math.max(0, ...known.map((step) => step[field].p95));
  const words = last ? `last: half within ${length(last[field].p50)}, 95 % within ${length(last[field].p95)}; worst 95 %: ${length(worst)}` : "nothing";
  return html`<section class="card" aria-labelledby=${id}>
    <header><h2 id=${id}>${title}</h2><span class="soft small">${words}</span></header>
    <${Chart} times=${times} series=${series} lines label=${`${title}: ${words}`} />
    <${Legend} series=${SHARES} />
  </section>`;
}
