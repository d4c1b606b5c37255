// A duetime worker in plain JavaScript, without any library. docs/worker-protocol.md tells what it says and why.
//
//   DUETIME_URL=http://127.0.0.1:8420 DUETIME_KEY=dt_live_… node examples/worker.mjs

const server = process.env.DUETIME_URL ?? "http://127.0.0.1:8420";
const slots = 8;

const tasks = {
  greet: async ({ to }) => `hello ${to}`,
  flaky: async (_, run) => {
    if (run.attempt === 1) throw new Error("not yet");
    return { attempt: run.attempt };
  },
  hold: ({ seconds }) => new Promise((done) => setTimeout(done, seconds * 1000)),
};

async function call(method, path, body, session = {}) {
  const headers = { authorization: `Bearer ${process.env.DUETIME_KEY}`, "content-type": "application/json", ...session };
  const signal = AbortSignal.timeout(40_000); // longer than the longest wait for a run
  const answer = await fetch(server + path, { method, headers, body: body && JSON.stringify(body), signal });
  const text = await answer.text();
  if (answer.ok) return text ? JSON.parse(text) : null;
  const gone = answer.status === 404 || answer.status === 409; // the lease is over: what was held belongs to others
  throw Object.assign(new Error(`${answer.status} ${text}`), { gone, hopeless: [401, 403, 422].includes(answer.status) });
}

async function attempt(run) {
  try {
    const result = await tasks[run.task](run.args, run);
    return { run_id: run.run_id, fence: run.fence, state: "SUCCEEDED", result: result ?? null };
  } catch (error) {
    return { run_id: run.run_id, fence: run.fence, state: "FAILED", error: String(error), error_types: [error.name] };
  }
}

async function untilAnswered(ask) {
  for (;;) {
    try { return await ask(); } catch (error) {
      if (error.gone || error.hopeless) throw error;
      await new Promise((done) => setTimeout(done, 500)); // the server is away: ask the very same again
    }
  }
}

let stopping = false;
process.on("SIGTERM", () => (stopping = true));

while (!stopping) {
  const worker = await untilAnswered(() =>
    call("POST", "/v1/workers", { name: `javascript:${process.pid}`, tasks: Object.keys(tasks), slots }));
  const me = `/v1/workers/${worker.worker_id}`;
  const session = { "duetime-worker-token": worker.token };
  console.log(`registered as ${worker.worker_id}`);
  let number = 0;
  const beat = setInterval(() => call("POST", `${me}/heartbeat`, { open_claims: [number || 1] }, session).catch(() => {}),
    worker.heartbeat * 1000);
  try {
    while (!stopping) {
      number += 1;
      const { runs } = await untilAnswered(() => call("POST", `${me}/claim`, { claim_no: number, room: slots, wait: 5 }, session));
      if (!runs.length) continue;
      const completions = await Promise.all(runs.map(attempt));
      await untilAnswered(() => call("POST", `${me}/complete`, { completions, closed_claims: [number] }, session));
    }
    await call("DELETE", me, undefined, session);
  } catch (error) {
    if (!error.gone) throw error; // register anew
  } finally {
    clearInterval(beat);
  }
}
