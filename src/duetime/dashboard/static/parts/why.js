// Why a run or a job waits, in words, with the fix.

import { useData } from "../core/data.js";
import { get } from "../core/http.js";
import { html } from "../core/view.js";
import { Moment } from "./basics.js";

const PASSES = ["not_due", "ready", "retry_delay", "snoozed", "firing", "follows", "behind"];

/** The reasons at `path`; nothing while there are none. */
export function Why({ path, shown = true }) {
  const { data: why } = useData((signal) => (shown ? get(path, {}, signal) : null), ["why", path, shown], { every: 3000 });
  if (!shown || !why || !why.reasons.length) return null;
  return html`<section aria-labelledby="why">
    <h2 id="why">Why it waits</h2>
    <ul class="troubles" role="list">
      ${why.reasons.map((reason) => html`<li key=${reason.code} class=${PASSES.includes(reason.code) ? "calm" : "warn"}><${Words} reason=${reason} /></li>`)}
    </ul>
  </section>`;
}

const Words = ({ reason }) => html`<div class="reason">
  <div>${reason.text}${reason.until && html` <span class="soft small">until <${Moment} at=${reason.until} /></span>`}</div>
  ${reason.fix && html`<div class="soft small">${reason.fix}</div>`}
  ${reason.runs.length + reason.jobs.length > 0 && html`<div class="small">
    ${reason.runs.map((id) => html`<a key=${id} href="/runs/${id}" class="id">run ${id}</a> `)}
    ${reason.jobs.map((id) => html`<a key=${id} href="/jobs/${id}" class="id">job ${id}</a> `)}
  </div>`}
</div>`;
