// Bulk actions: one action on everything that a list's filter matches. The server carries them out; this shows a count
// first, and the progress.

import { useData } from "../core/data.js";
import { act, complain } from "../core/doing.js";
import { get, post } from "../core/http.js";
import { isScoped, may } from "../core/session.js";
import { html, useEffect, useState } from "../core/view.js";
import { number, plural, title } from "../core/words.js";
import { askBack } from "./asking.js";

const NOUNS = { jobs: "job", runs: "run", dead_letters: "dead letter" };

const ACTIONS = {
  jobs: [
    { action: "pause", word: "Pause", means: "They do not fire until they are resumed." },
    { action: "resume", word: "Resume", means: "The misfire policy of each decides about missed occurrences." },
    { action: "run", word: "Run now", means: "Each gets an extra run beside its schedule, 100 per second. This cannot be undone." },
    { action: "cancel", word: "Cancel", means: "They get no further runs, and running ones are asked to stop. This cannot be undone." },
  ],
  runs: [
    { action: "retry", word: "Retry", means: "Waiting retries start now; ended ones get a new run, 100 per second. This cannot be undone." },
    { action: "cancel", word: "Cancel", means: "Waiting ones end, running ones are asked to stop. This cannot be undone." },
  ],
  dead_letters: [
    { action: "retry", word: "Replay", means: "Each becomes a new run with the same arguments, 100 per second. This cannot be undone." },
    { action: "discard", word: "Discard", means: "They cannot be replayed afterwards. The history of the runs stays until its retention ends." },
  ],
};

export const wordOf = (bulk) => ACTIONS[bulk.objects].find((each) => each.action === bulk.action).word;
export const nounOf = (bulk) => `${NOUNS[bulk.objects]}s`;
export const stopBulk = (bulk, then) => act(() => post(`/v1/bulk-actions/${bulk.bulk_id}/stop`), "Stopped", { then });

export const resultOf = (bulk) =>
  [`${number(bulk.done)} done`, bulk.skipped ? `${number(bulk.skipped)} unchanged` : "", bulk.failed ? `${number(bulk.failed)} failed` : ""]
    .filter(Boolean)
    .join(", ");

/** The bulk actions on these objects: those that are under way or were started here, and `start`, which asks first.
 * `done` is called when one of them has ended. */
export function useBulk(objects, done = () => {}) {
  const [busy, setBusy] = useState(false);
  const [started, setStarted] = useState([]);
  const { data, reload } = useData((signal) => (isScoped() ? null : get("/v1/bulk-actions", {}, signal)), ["bulk", objects], { every: 2000 });
  const shown = (data ? data.items : []).filter(
    (bulk) => bulk.objects === objects && (bulk.status === "running" || started.includes(bulk.bulk_id)),
  );
  const ended = shown.filter((bulk) => bulk.status !== "running").length;
  useEffect(() => {
    if (ended) done();
  }, [ended]);
  const start = async ({ action, word, means }, filter) => {
    const body = { action, [objects]: filter };
    setBusy(true);
    try {
      const found = await post("/v1/bulk-actions/preview", body);
      const more = found.complete ? "" : "+";
      const same = found.matching - found.affected;
      const names = [...new Set(found.sample.map((each) => each.name))].join(", ");
      const text = [
        names && `The newest: ${names}.`,
        same > 0 && `${number(same)}${more} more match and do not change.`,
        !found.complete && "More match than were counted; all of them are included.",
        means,
      ];
      const noun = `${number(found.affected)}${more} ${found.affected === 1 ? NOUNS[objects] : `${NOUNS[objects]}s`}`;
      if (!found.affected && found.complete) {
        const none = found.matching ? `${plural(found.matching, NOUNS[objects])} match, and none of them changes.` : "Nothing matches.";
        await askBack({ title: "Nothing to do", text: none, done: "Close" });
      } else if (await askBack({ title: `${word} ${noun}?`, text: text.filter(Boolean).join(" "), yes: `${word} ${noun}`, no: "Keep them" })) {
        const bulk = await post("/v1/bulk-actions", body);
        setStarted((was) => [...was, bulk.bulk_id]);
        reload();
      }
    } catch (error) {
      complain(error);
    }
    setBusy(false);
  };
  return { busy, shown, start, reload };
}

export const actionsOn = (objects) => ACTIONS[objects];

/** Buttons that act on everything that matches, and the actions of this kind that are under way. */
export const BulkActions = ({ objects, filter }) => html`<${BulkPanel} objects=${objects} filter=${filter} bulk=${useBulk(objects)} />`;

/** The same with the actions of `useBulk`, which other buttons on the page start, too. */
export function BulkPanel({ objects, filter, bulk: { busy, shown, start, reload } }) {
  if (isScoped() || !may("control")) return null;
  return html`<div class="all-matching" role="group" aria-label="All that match">
      <span class="soft small">All that match:</span>
      ${ACTIONS[objects].map(
        (each) => html`<button key=${each.action} class="tight ${each.action === "cancel" || each.action === "discard" ? "danger" : ""}" disabled=${busy} onClick=${() => start(each, filter)}>${each.word}<span class="hidden-words"> all that match</span></button>`,
      )}
    </div>
    ${shown.map(
      (bulk) => html`<p key=${bulk.bulk_id} class="trouble-line quiet" role="status">
        <span>${wordOf(bulk)} ${nounOf(bulk)}: ${resultOf(bulk)}${bulk.status === "running" ? "…" : bulk.status === "stopped" ? ", stopped" : ""}</span>
        ${bulk.status === "running" ? html`<button class="tight" onClick=${() => stopBulk(bulk, reload)}>Stop</button>` : html`<a href="/bulk-actions">Bulk actions</a>`}
      </p>`,
    )}`;
}
