// One event stream for the whole page. Events are summed up and passed on at most once a second, so a thousand of them
// cost no more than one. While the page is hidden, nothing is passed on.
//
// The stream is opened again whenever it ends, and when nothing has come for longer than the server is ever silent: a
// connection can die without a sign. A page that only listens learns here that its session is over.

import { headersFor, sessionIsOver } from "./http.js";

const MOST_IDS = 500;
const SILENT = 40000;
const FIRST_WAIT = 250;
const LONGEST_WAIT = 15000;
const AT_MOST_EVERY = 1000;

const listeners = new Set();
const watchers = new Set();
let state = "starting";
let sum = null;
let timer = null;
let last = null;
let stop = null;

function fresh() {
  return { kinds: new Set(), ids: new Set(), many: false };
}

export function listen(callback) {
  listeners.add(callback);
  return () => listeners.delete(callback);
}

export function watchState(callback) {
  watchers.add(callback);
  callback(state);
  return () => watchers.delete(callback);
}

export function openStream() {
  closeStream();
  stop = new AbortController();
  follow(stop.signal);
}

export function closeStream() {
  if (stop) stop.abort();
  stop = last = null;
}

async function follow(signal) {
  let wait = FIRST_WAIT;
  while (!signal.aborted) {
    const lived = await read(signal);
    if (signal.aborted) return;
    tell("away");
    // However a stream ended that was up, the next one is tried soon: only refusals make the waits longer.
    wait = lived ? FIRST_WAIT : Math.min(wait * 2, LONGEST_WAIT);
    await new Promise((done) => setTimeout(done, wait));
  }
}

/** Read one stream to its end; whether it was up. */
async function read(signal) {
  const attempt = new AbortController();
  const abort = () => attempt.abort();
  signal.addEventListener("abort", abort);
  let watchdog = setTimeout(abort, SILENT);
  let lived = false;
  try {
    const headers = headersFor(last ? { "Last-Event-ID": last } : {});
    const answer = await fetch("/v1/events", { headers, signal: attempt.signal, cache: "no-store" });
    if (answer.status === 401) sessionIsOver();
    if (!answer.ok || !answer.body) return false;
    lived = true;
    const missed = state === "away";
    tell("live");
    if (missed) take({ kind: "", ids: [], many: true });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return lived;
      clearTimeout(watchdog);
      watchdog = setTimeout(abort, SILENT);
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      blocks.forEach(understand);
    }
  } catch (error) {
    return lived;
  } finally {
    clearTimeout(watchdog);
    signal.removeEventListener("abort", abort);
  }
}

function understand(block) {
  const lines = block.split("\n");
  const id = lines.find((line) => line.startsWith("id: "));
  const data = lines.find((line) => line.startsWith("data: "));
  if (id) last = id.slice(4);
  if (!data) return;
  const event = JSON.parse(data.slice(6));
  take({ kind: event.kind.toLowerCase(), ids: event.job_ids || event.run_ids || [] });
}

function take({ kind, ids, many = false }) {
  sum = sum || fresh();
  if (kind) sum.kinds.add(kind);
  sum.many = sum.many || many || sum.ids.size + ids.length > MOST_IDS;
  if (sum.many) sum.ids.clear();
  else ids.forEach((id) => sum.ids.add(id));
  timer = timer || setTimeout(hand, AT_MOST_EVERY / 4);
}

let handed = 0;

function hand() {
  timer = null;
  if (!sum || document.hidden) return;
  const early = handed + AT_MOST_EVERY - performance.now();
  if (early > 0) {
    timer = setTimeout(hand, early);
    return;
  }
  handed = performance.now();
  const news = sum;
  sum = null;
  listeners.forEach((callback) => callback(news));
}

document.addEventListener("visibilitychange", hand);

function tell(found) {
  if (found === state) return;
  state = found;
  watchers.forEach((callback) => callback(state));
}

// Filters for events.
export const about = (id) => (news) => news.many || news.ids.has(id);
export const anything = () => true;
export const ofKind = (...kinds) => (news) => news.many || kinds.some((kind) => news.kinds.has(kind));
