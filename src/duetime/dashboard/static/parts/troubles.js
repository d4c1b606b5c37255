// Current problems in words, with a link to each. The worst comes first.

import { count, length, number, percent, plural } from "../core/words.js";

const LATE = 30;
const SLOW = 5;

export function troubles(stats, now) {
  return [
    ...noWorkers(stats),
    ...stuck(stats, now),
    ...failing(stats),
    ...lost(stats),
    ...slow(stats),
    ...dead(stats),
    ...full(stats),
    ...paused(stats),
  ];
}

function noWorkers(stats) {
  if (stats.workers) return [];
  const { high, medium, low } = stats.depth;
  const mild = high + medium + low === 0;
  return [{ text: "No worker is alive: due runs will not start.", href: "/workers", link: "Workers", mild }];
}

function stuck(stats, now) {
  return stats.waiting
    .filter((each) => !each.paused && (now - Date.parse(each.since)) / 1000 > (each.has_worker ? LATE : SLOW))
    .slice(0, 3)
    .map((each) => {
      const since = length(Math.floor((now - Date.parse(each.since)) / 1000));
      const href = `/runs?${new URLSearchParams({ task: each.task, status: "PENDING" })}`;
      const text = each.has_worker
        ? `${each.task} has been waiting in the queue ${each.queue} for ${since}.`
        : `${each.task} has been due for ${since}, and no live worker has this task.`;
      return { text, href, link: "Waiting runs" };
    });
}

function failing(stats) {
  return stats.failing
    .filter((each) => each.failed >= 3 && each.failed / each.attempts > 0.2)
    .slice(0, 3)
    .map((each) => ({
      text: `${each.task} is failing: ${number(each.failed)} of ${plural(each.attempts, "attempt")} (${percent(each.failed / each.attempts)}).`,
      href: `/runs?${new URLSearchParams({ task: each.task })}`,
      link: "Its runs",
    }));
}

function lost(stats) {
  const found = stats.steps.reduce((sum, step) => sum + step.lost, 0);
  return found
    ? [{ text: `${plural(found, "attempt")} lost their worker recently.`, href: "/workers", link: "Workers" }]
    : [];
}

function slow(stats) {
  if (!stats.lag || stats.lag.p95 <= SLOW) return [];
  const text = `Runs start late: 5 % wait ${length(stats.lag.p95)} or longer.`;
  return [{ text, href: "/queues", link: "Queues" }];
}

function dead(stats) {
  if (!stats.dead_letters.value) return [];
  const one = stats.dead_letters.value === 1;
  return [{ text: `${count(stats.dead_letters)} ${one ? "run has" : "runs have"} used all attempts.`, href: "/dead-letters", link: "Dead letters" }];
}

function full(stats) {
  if (!stats.slots || stats.running.value < stats.slots) return [];
  return [{ text: `All ${plural(stats.slots, "slot")} are in use.`, href: "/workers", link: "Workers", mild: true }];
}

function paused(stats) {
  return stats.paused_queues
    .slice(0, 3)
    .map((name) => ({ text: `The queue ${name} is paused.`, href: "/queues", link: "Queues", mild: true }));
}
