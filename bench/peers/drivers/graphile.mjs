// graphile-worker on PostgreSQL, as its performance page has it: local queue of 500, completions in batches, no log.
//
//     node graphile.mjs reset | submit N single|bulk | send RATE SECONDS | plan RATE SECONDS | work

import { closeSync, openSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

// As its own performance scripts do: a line of log for each job that succeeded would cost more than the job. It is read
// when the module is loaded.
process.env.NO_LOG_SUCCESS = "1";
const require = createRequire(join(process.env.PEER_HOME, "package.json"));
const { run, runMigrations } = require("graphile-worker");
const { Pool } = require("pg");

const connectionString = process.env.PEER_URL;
const ARGUMENT = "x".repeat(180);
const TICK = 10;
const AHEAD = Number(process.env.PEER_AHEAD ?? 18);
const CONCURRENCY = Number(process.env.PEER_CONCURRENCY ?? 24);
const POLL = "PEER_PLANS" in process.env ? 100 : 2000;
const now = () => (performance.timeOrigin + performance.now()) / 1000;
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// Starts are kept in memory and written a few times a second: the format of tally.py.
class Tally {
  constructor() {
    this.file = openSync(join(process.env.TALLY, `${process.pid}.tally`), "w");
    this.pairs = [];
    this.written = 0;
    setInterval(() => this.flush(), 50);
  }

  hit(sent) {
    this.pairs.push(sent, now());
  }

  flush() {
    if (this.pairs.length === 0) return;
    const bytes = Buffer.from(Float64Array.from(this.pairs).buffer);
    this.pairs = [];
    writeSync(this.file, bytes, 0, bytes.length, this.written);
    this.written += bytes.length;
  }

  close() {
    this.flush();
    closeSync(this.file);
  }
}

async function submit(pool, moments, bulk) {
  if (!bulk) {
    for (const moment of moments) {
      const body = JSON.stringify({ sent: moment, to: ARGUMENT });
      await pool.query("select graphile_worker.add_job('nothing', $1::json)", [body]);
    }
    return;
  }
  const bodies = moments.map((moment) => JSON.stringify({ sent: moment, to: ARGUMENT }));
  await pool.query(
    `select 1 from graphile_worker.add_jobs(array(
       select json_populate_record(null::graphile_worker.job_spec,
         json_build_object('identifier', 'nothing', 'payload', p::json)) from unnest($1::text[]) as p))`,
    [bodies],
  );
}

async function work() {
  const tally = new Tally();
  const runner = await run({
    taskList: { nothing: async ({ sent }) => tally.hit(sent) },
    preset: {
      worker: {
        connectionString,
        concurrentJobs: CONCURRENCY,
        pollInterval: POLL,
        maxPoolSize: CONCURRENCY + 1,
        localQueue: { size: 500 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
        crontabFile: null,
      },
    },
    noHandleSignals: true,
  });
  process.on("SIGTERM", () => {
    tally.close();
    process.exit(0);
  });
  await runner.promise;
}

async function send(pool, rate, seconds) {
  const began = now();
  const wanted = Math.floor(rate * seconds);
  let sent = 0;
  while (sent < wanted) {
    const elapsed = now() - began;
    const most = sent + Math.max(1, Math.floor((rate * TICK * 50) / 1000));
    const due = Math.min(wanted, Math.floor(elapsed * rate) + 1, most);
    if (due > sent) {
      const moments = Array.from({ length: due - sent }, (_, index) => began + (sent + index) / rate);
      await submit(pool, moments, true);
      sent = due;
    }
    if (elapsed > 3 * seconds) break;
    await pause(rate < 1000 / TICK ? Math.max(0, (began + sent / rate - now()) * 1000) : TICK);
  }
  return sent;
}

async function plan(pool, rate, seconds) {
  const began = now() + AHEAD;
  const moments = Array.from({ length: Math.floor(rate * seconds) }, () => began + Math.random() * seconds);
  for (const moment of moments) {
    const body = JSON.stringify({ sent: moment, to: ARGUMENT });
    await pool.query("select graphile_worker.add_job('nothing', $1::json, run_at => to_timestamp($2))", [body, moment]);
  }
  if (now() > began) throw new Error("it took so long to submit them that the first was due");
  return moments.length;
}

async function measureSubmit(pool, count, bulk) {
  await submit(pool, [now()], bulk);
  const began = now();
  for (let start = 0; start < count - 1; start += 1000) {
    await submit(pool, Array(Math.min(1000, count - 1 - start)).fill(now()), bulk);
  }
  return now() - began;
}

const [command, ...rest] = process.argv.slice(2);
if (command === "work") {
  await work();
} else {
  const pool = new Pool({ connectionString, max: 2 });
  let answer = null;
  if (command === "reset") await runMigrations({ connectionString });
  else if (command === "submit") answer = await measureSubmit(pool, Number(rest[0]), rest[1] === "bulk");
  else if (command === "send") answer = await send(pool, Number(rest[0]), Number(rest[1]));
  else if (command === "plan") answer = await plan(pool, Number(rest[0]), Number(rest[1]));
  console.log(JSON.stringify(answer));
  await pool.end();
}
