// Now: the current state, current problems in words, and the fires of the next hour.

import { go, setQuery, useData, useNow } from "../core/data.js";
import { address, get } from "../core/http.js";
import { anything } from "../core/live.js";
import { html } from "../core/view.js";
import { clock, count, length, number, percent, plural, setClock } from "../core/words.js";
import { Head, Loading, Meter, Segments, Wrong } from "../parts/basics.js";
import { Chart, Legend } from "../parts/chart.js";
import { troubles } from "../parts/troubles.js";

const OUTCOMES = [
  { name: "succeeded", label: "succeeded", colour: "bar-good", mark: "good" },
  { name: "retried", label: "retried", colour: "bar-warn", mark: "warn" },
  { name: "failed", label: "failed", colour: "bar-bad", mark: "bad" },
  { name: "skipped", label: "skipped or cancelled", colour: "bar-idle", mark: "" },
];

const sum = (steps, name) => steps.reduce((total, step) => total + step[name], 0);

export function Now({ query }) {
  const span = query.window || "5m";
  const { data: stats, error } = useData(
    async (signal) => {
      const found = await get("/v1/stats", { window: span }, signal);
      setClock(found.at);
      return found;
    },
    ["stats", span],
    { live: anything, every: 5000 },
  );
  const { data: fires } = useData((signal) => get("/v1/fires", {}, signal), ["fires"], { every: 15000 });
  return html`<${Head} title="Now">Running and waiting work, and current problems.</${Head}>
    <${Wrong} error=${error} />
    ${stats ? html`<${Standing} stats=${stats} fires=${fires} span=${span} />` : !error && html`<${Loading} />`}`;
}

function Standing({ stats, fires, span }) {
  return html`<div class="stack">
    <${Troubles} stats=${stats} />
    <${Figures} stats=${stats} />
    <div class="two">
      <section class="card" aria-labelledby="throughput">
        <header>
          <h2 id="throughput">Runs per second, by outcome</h2>
          <${Segments}
            label="Period"
            value=${span}
            onPick=${(window) => setQuery({ window })}
            choices=${[["5m", "5 min"], ["15m", "15 min"], ["1h", "1 hour"]]}
          />
        </header>
        <${Throughput} stats=${stats} />
        <${Legend} series=${OUTCOMES} />
      </section>
      <section class="card" aria-labelledby="waiting">
        <h2 id="waiting">Waiting runs, by priority</h2>
        <${Tiers} depth=${stats.depth} />
      </section>
    </div>
    <section class="card" aria-labelledby="hour">
      <${NextHour} fires=${fires} />
    </section>
  </div>`;
}

function Troubles({ stats }) {
  const now = useNow();
  const found = troubles(stats, now);
  if (!found.length) {
    return html`<p class="well" role="status">No problems: nothing is late or stuck.</p>`;
  }
  return html`<ul class="troubles" aria-label="Current problems" role="list">
    ${found.map(
      (each) => html`<li key=${each.text} class=${each.mild ? "warn" : ""}>
        <span>${each.text}</span><a href=${each.href}>${each.link}</a>
      </li>`,
    )}
  </ul>`;
}

function Figures({ stats }) {
  const seconds = Math.max(1, (Date.parse(stats.at) - Date.parse(stats.since)) / 1000);
  const ended = sum(stats.steps, "succeeded") + sum(stats.steps, "failed");
  const tried = ended + sum(stats.steps, "retried") + sum(stats.steps, "lost");
  const lost = sum(stats.steps, "lost");
  const { lag, depth } = stats;
  const waits = depth.high + depth.medium + depth.low;
  const items = [
    ["Lag, p95", lag ? length(lag.p95) : "–", lag ? `median ${length(lag.p50)}` : "no run started", lag && lag.p95 > 5 ? "warn" : ""],
    ["Runs per second", (ended / seconds).toFixed(ended / seconds < 10 ? 2 : 0), `${number(ended)} in ${length(seconds)}`],
    ["Running", count(stats.running), `of ${plural(stats.slots, "slot")}`],
    ["Waiting", `${number(waits)}${depth.capped ? "+" : ""}`, "due now or within 15 s"],
    ["Retry rate", tried ? percent(sum(stats.steps, "retried") / tried) : "–", `of ${plural(tried, "attempt")}`],
    ["Expired leases", number(lost), "attempts lost with their worker", lost ? "bad" : ""],
    ["Dead letters", count(stats.dead_letters), "runs without attempts left", stats.dead_letters.value ? "bad" : ""],
    ["Workers", number(stats.workers), `${count(stats.jobs)} jobs with a next run`, stats.workers ? "" : "bad"],
  ];
  return html`<dl class="figures">
    ${items.map(
      ([name, value, more, mark = ""]) => html`<div class="figure" key=${name}>
        <dt>${name}</dt>
        <dd class=${mark}>${value}</dd>
        <dd>${more}</dd>
      </div>`,
    )}
  </dl>`;
}

function Throughput({ stats }) {
  const times = stats.steps.map((step) => Date.parse(step.at) / 1000);
  const series = OUTCOMES.map((each) => ({
    ...each,
    values: stats.steps.map((step) => {
      const ended = each.name === "skipped" ? step.skipped + step.cancelled : step[each.name];
      return ended / stats.step;
    }),
  }));
  const words = OUTCOMES.map((each) => `${number(sum(stats.steps, each.name))} ${each.label}`).join(", ");
  return html`<${Chart} times=${times} series=${series} unit="/s" label=${`Runs per second over time: ${words}`} />`;
}

function Tiers({ depth }) {
  const most = Math.max(depth.high, depth.medium, depth.low, 1);
  return html`<div class="tiers">
    ${["high", "medium", "low"].map(
      (tier) => html`<span key=${`${tier}-name`}>${tier.charAt(0).toUpperCase() + tier.slice(1)}</span>
        <${Meter} share=${depth[tier] / most} label=${`Waiting with ${tier} priority`} />
        <strong>${number(depth[tier])}${depth.capped && depth[tier] === most ? "+" : ""}</strong>`,
    )}
  </div>`;
}

/** The fires of an hour, minute by minute, over all queues. */
export function byStretch(fires) {
  const steps = Math.round((Date.parse(fires.end) - Date.parse(fires.start)) / 1000 / fires.step);
  const start = Date.parse(fires.start) / 1000;
  const counts = new Array(steps).fill(0);
  fires.items.forEach((item) => {
    counts[Math.round((Date.parse(item.at) / 1000 - start) / fires.step)] += item.count;
  });
  return { times: counts.map((_, place) => start + place * fires.step), counts };
}

function NextHour({ fires }) {
  const head = html`<h2 id="hour">The next hour</h2>`;
  if (!fires) return html`<header>${head}</header><div class="chart" style=${{ height: "110px" }}></div>`;
  const { times, counts } = byStretch(fires);
  const total = counts.reduce((all, each) => all + each, 0);
  const most = Math.max(...counts);
  const busiest = counts.indexOf(most);
  const to = (place) =>
    address("/jobs", {
      fires_from: new Date(times[place] * 1000).toISOString(),
      fires_until: new Date((times[place] + fires.step) * 1000).toISOString(),
    });
  const words = total
    ? html`${fires.exact ? "" : "≈ "}${plural(total, "run")}, most at${" "}
        <a href=${to(busiest)}>${clock(new Date(times[busiest] * 1000))}: ${number(most)}</a>`
    : "No fires.";
  return html`<header>${head}<span class="soft small">${words}</span></header>
    <${Chart}
      times=${times}
      series=${[{ label: "runs", colour: "bar-busy", values: counts }]}
      height=${110}
      label=${`Fires in the next hour by minute: ${number(total)} in total, at most ${number(most)} per minute`}
      onPick=${(place) => go(to(place))}
    />`;
}
