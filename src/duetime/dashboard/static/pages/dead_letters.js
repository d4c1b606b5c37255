// Dead letters: runs that gave up, grouped by what went wrong; repeated or discarded together.

import { useData } from "../core/data.js";
import { complain, say } from "../core/doing.js";
import { post } from "../core/http.js";
import { ofKind } from "../core/live.js";
import { listAll } from "../core/pages.js";
import { may } from "../core/session.js";
import { html, useState } from "../core/view.js";
import { number, plural } from "../core/words.js";
import { askBack } from "../parts/asking.js";
import { Empty, Head, Loading, Moment, Wrong } from "../parts/basics.js";

const AT_ONCE = 100;
const SHOWN = 5;

const firstLine = (error) => (error || "").split("\n")[0].slice(0, 250);

/** One group for each task and first line of its error. */
function grouped(letters) {
  const groups = new Map();
  letters.forEach((letter) => {
    const error = firstLine(letter.error);
    const key = JSON.stringify([letter.task, letter.failure, error]);
    const group = groups.get(key) || { key, task: letter.task, failure: letter.failure, error, letters: [] };
    group.letters.push(letter);
    groups.set(key, group);
  });
  return [...groups.values()].sort((one, other) => other.letters.length - one.letters.length);
}

export function DeadLetters() {
  const { data, error, reload } = useData((signal) => listAll("/v1/dead-letters", {}, signal), ["dead letters"], {
    live: ofKind("failed", "fired", "submitted"),
  });
  const groups = data ? grouped(data.items) : [];
  return html`<${Head} title="Dead letters">Runs whose attempts are spent, kept to be looked at and repeated.</${Head}>
    <${Wrong} error=${error} />
    ${!data && !error && html`<${Loading} />`}
    ${data && !groups.length && html`<div class="card"><${Empty} title="There are none.">Every run has ended well, or is still being tried.</${Empty}></div>`}
    <div class="stack">
      ${groups.map((group) => html`<${Group} key=${group.key} group=${group} reload=${reload} more=${data.more} />`)}
    </div>
    ${data && data.more && html`<p class="hint">These are the newest ${number(data.items.length)}; there are more. Actions on a group take in those too.</p>`}`;
}

function filterOf(group) {
  const filter = { task: group.task };
  if (group.error) filter.error = group.error;
  if (group.failure) filter.failure = group.failure;
  return filter;
}

function Group({ group, reload, more }) {
  const [progress, setProgress] = useState(null);
  const size = group.letters.length;
  const newest = group.letters[0];
  const count = `${number(size)}${more ? "+" : ""}`;

  const work = async (verb, word, step) => {
    let done = 0;
    setProgress({ word, done });
    try {
      for (;;) {
        const answer = await post(`/v1/dead-letters/${verb}`, { ...filterOf(group), limit: AT_ONCE });
        const [made, again] = step(answer);
        done += made;
        setProgress({ word, done });
        if (!again) break;
      }
      say(`${word} ${plural(done, "dead letter")}`);
    } catch (error) {
      complain(error);
    }
    setProgress(null);
    reload();
  };
  const replay = () => work("replay", "Replayed", (answer) => [answer.runs.length, answer.more]);
  const discard = async () => {
    const text = "They cannot be replayed afterwards. The history of the runs stays until its retention is over.";
    if (await askBack({ title: `Discard ${count} dead letters?`, text, yes: "Discard them" })) {
      await work("discard", "Discarded", (answer) => [answer.discarded, answer.discarded === AT_ONCE]);
    }
  };
  return html`<article class="card">
    <header>
      <h2>${group.task} <span class="soft">× ${count}</span></h2>
      <span class="soft small">last <${Moment} at=${newest.died_at} /></span>
    </header>
    <pre class="text">${group.error || (group.failure || "unknown").replaceAll("_", " ")}</pre>
    <p class="hint">
      ${group.letters.slice(0, SHOWN).map((letter) => html`<a key=${letter.run_id} href="/runs/${letter.run_id}" class="nowrap">${letter.name || letter.run_id.slice(-8)}</a>${" "} `)}
      ${size > SHOWN ? `and ${number(size - SHOWN)} more` : ""}
    </p>
    ${may("control") && html`<div class="buttons" style=${{ marginTop: "14px" }}>
      <button class="main" disabled=${Boolean(progress)} onClick=${replay}>Replay ${count}</button>
      <button class="danger" disabled=${Boolean(progress)} onClick=${discard}>Discard ${count}</button>
      ${progress && html`<span class="soft" role="status" style=${{ alignSelf: "center" }}>${progress.word} ${number(progress.done)} of ${count}</span>`}
    </div>`}
  </article>`;
}
