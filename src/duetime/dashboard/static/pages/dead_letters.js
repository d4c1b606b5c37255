// Dead letters: runs that used all their attempts, grouped by error; replayed or discarded together.

import { useData } from "../core/data.js";
import { complain, say } from "../core/doing.js";
import { get, post } from "../core/http.js";
import { ofKind } from "../core/live.js";
import { may } from "../core/session.js";
import { html, useRef, useState } from "../core/view.js";
import { number, plural } from "../core/words.js";
import { askBack } from "../parts/asking.js";
import { BulkActions } from "../parts/bulk.js";
import { Empty, Head, Loading, Moment, Wrong } from "../parts/basics.js";

const AT_ONCE = 100;
const RATE = 100;

export function DeadLetters() {
  const { data, error, reload } = useData((signal) => get("/v1/dead-letters/groups", {}, signal), ["dead letters"], {
    live: ofKind("failed", "fired", "submitted"),
  });
  return html`<${Head} title="Dead letters">Runs that used all their attempts, kept for inspection and replay.</${Head}>
    ${data && data.groups.length > 0 && html`<${BulkActions} objects="dead_letters" filter=${{}} />`}
    <${Wrong} error=${error} />
    ${!data && !error && html`<${Loading} />`}
    ${data && !data.groups.length && html`<div class="card"><${Empty} title="No dead letters.">No run has used all its attempts.</${Empty}></div>`}
    <div class="stack">
      ${data && data.groups.map((group) => html`<${Group} key=${group.fingerprint} group=${group} reload=${reload} more=${data.more} />`)}
    </div>
    ${data && data.more && html`<p class="hint">The groups count the newest ${number(data.counted)}; there are more. Actions on a group include those.</p>`}`;
}

function Group({ group, reload, more }) {
  const [progress, setProgress] = useState(null);
  const count = `${number(group.count)}${more ? "+" : ""}`;

  const wanted = useRef(true);
  const stop = () => (wanted.current = false);

  /** In batches, so that the user sees the progress and can stop. Only dead letters that exist now: if the cause
   * persists, replayed runs die again, and would be replayed forever. */
  const work = async (verb, word, more, step) => {
    const of = count;
    let done = 0;
    wanted.current = true;
    setProgress({ word, done, of });
    try {
      const { now: end_time } = await get("/v1/me");
      const began = performance.now();
      for (let again = true; again && wanted.current; ) {
        const late = (performance.now() - began) / 1000;
        const body = { fingerprint: group.fingerprint, end_time, limit: AT_ONCE, ...more(done, late) };
        const [made, isMore] = step(await post(`/v1/dead-letters/${verb}`, body));
        done += made;
        again = isMore && made > 0;
        setProgress({ word, done, of });
      }
      say(`${word} ${plural(done, "dead letter")}`);
    } catch (error) {
      complain(error);
    }
    setProgress(null);
    reload();
  };
  // Each request starts where the last one ended, so that together they keep the rate.
  const pace = (done, late) => ({ rate: RATE, delay: Math.max(0, done / RATE - late) });
  const replay = async () => {
    const text = `Each becomes a new run with the same arguments, ${RATE} per second. This cannot be undone.`;
    if (await askBack({ title: `Replay ${count} dead letters?`, text, yes: "Replay them", no: "Keep them" })) {
      await work("replay", "Replayed", pace, (answer) => [answer.runs.length, answer.more]);
    }
  };
  const discard = async () => {
    const text = "Discarded runs cannot be replayed. The history of the runs stays until its retention ends.";
    if (await askBack({ title: `Discard ${count} dead letters?`, text, yes: "Discard them", no: "Keep them" })) {
      await work("discard", "Discarded", () => ({}), (answer) => [answer.discarded, answer.discarded === AT_ONCE]);
    }
  };
  return html`<article class="card">
    <header>
      <h2>${group.tasks.join(", ")} <span class="soft">× ${count}</span></h2>
      <span class="soft small">last <${Moment} at=${group.last_died_at} />, first <${Moment} at=${group.first_died_at} /></span>
    </header>
    <pre class="text">${(group.error || group.failure || "unknown").split("\n")[0]}</pre>
    <p class="hint"><a href="/runs/${group.newest_run}">Newest run</a></p>
    ${may("control") && html`<div class="buttons actions">
      <button class="main" disabled=${Boolean(progress)} onClick=${replay}>Replay ${count}</button>
      <button class="danger" disabled=${Boolean(progress)} onClick=${discard}>Discard ${count}</button>
      ${progress && html`<button onClick=${stop}>Stop</button>`}
      ${progress && html`<span class="soft" role="status">${progress.word} ${number(progress.done)} of ${progress.of}</span>`}
    </div>`}
  </article>`;
}
