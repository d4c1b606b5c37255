// Runs in streams: how many there are, and what is known of one of them.

import { html } from "../core/view.js";
import { number, relative, title } from "../core/words.js";
import { Badge, Exact, Head } from "./basics.js";

const inStream = (each) => `${number(each.depth)} in ${each.queue}, ${title(each.priority)} priority${each.oldest ? `, the oldest since ${relative(each.oldest)}` : ""}`;

/** The messages in streams, which a list of runs or jobs does not contain. */
export function InStreams({ found }) {
  if (!found || !found.length) return null;
  return html`<p class="hint">Not in this list: messages in streams. ${found.map(inStream).join("; ")}.</p>`;
}

/** A run or job that has no row, and may be in a stream. */
export const MaybeInStream = ({ word, id, at }) => html`<${Head} title=${word}><${Badge} status="IN_STREAM" word="In a stream?" /></${Head}>
  <section class="card" aria-labelledby="facts">
    <h2 id="facts">It may be in a stream</h2>
    <p>The database has no row of it. It may be waiting in a stream, or running. It appears here when it ends, fails, or runs for five seconds.</p>
    <dl class="facts"><dt>Id</dt><dd><code class="small">${id}</code></dd><dt>Submitted</dt><dd><${Exact} at=${at} /></dd></dl>
  </section>`;
