// A page for named objects of the tenant: a list, a form to create or change one, and actions. Which form is open is
// part of the address.

import { setQuery, useData } from "../core/data.js";
import { act } from "../core/doing.js";
import { ask, get } from "../core/http.js";
import { may } from "../core/session.js";
import { html } from "../core/view.js";
import { askBack } from "./asking.js";
import { Empty, Head, Loading, Wrong } from "./basics.js";
import { Editor, requestOf } from "./editor.js";

const EVERY = 5000;

/**
 * `kind` describes the objects:
 *   title, intro, noun       words
 *   path, request, allowed   the endpoint, the type of its body, and the action that changes need
 *   columns                  [[head, (item) => cell, className?]]
 *   buttons                  (item, reload) => more buttons of a row
 *   start                    the values of a new object, and (item) => those of an edited one, if they are not its own
 *   gone                     what a deletion means
 *   saved                    called with the answer to a change
 */
export function Managed({ kind, query, children = null, more = null }) {
  const { data, error, reload } = useData((signal) => get(kind.path, {}, signal), [kind.path], { every: EVERY });
  const steers = may(kind.allowed || "control");
  const close = () => setQuery({ edit: null, new: null });
  const one = (name) => `${kind.path}/${encodeURIComponent(name)}`;
  const put = (name, body) => ask("PUT", one(name), { body });
  const save = (was) => async (name, body) => {
    const answer = await put(name, body);
    const undo = was && !kind.irreversible ? () => put(name, requestOf(kind.request, was)) : null;
    await act(async () => answer, `Saved ${name}`, { undo, then: reload });
    close();
    if (kind.saved) await kind.saved(answer);
  };
  const remove = async (item) => {
    const text = `${kind.gone} This cannot be undone.`;
    if (await askBack({ title: `Delete ${item.name}?`, text, yes: `Delete the ${kind.noun}`, no: "Keep it" })) {
      await act(() => ask("DELETE", one(item.name)), `Deleted ${item.name}`, { then: reload });
    }
  };
  const edited = data && query.edit ? data.items.find((item) => item.name === query.edit) : null;
  const values = (item) => (kind.edits ? kind.edits(item) : requestOf(kind.request, item));
  const create = steers && html`<button class="main" onClick=${() => setQuery({ new: "1", edit: null })}>New ${kind.noun}</button>`;
  return html`<${Head} title=${kind.title} buttons=${create}>${kind.intro}</${Head}>
    <div class="stack">
      <${Wrong} error=${error} />
      ${steers && query.new && html`<${Editor} key="new" request=${kind.request} label=${`New ${kind.noun}`} naming="Name" start=${kind.start || {}} examples=${kind.examples} verb="Create" save=${save(null)} close=${close} />`}
      ${steers && edited && html`<${Editor} key=${edited.name} request=${kind.request} label=${`Edit ${edited.name}`} naming="Name" name=${edited.name} start=${values(edited)} examples=${kind.examples} save=${save(edited)} close=${close} />`}
      ${!data && !error && html`<${Loading} />`}
      ${data && !data.items.length && !query.new && html`<div class="card"><${Empty} title=${`There are no ${kind.nouns || `${kind.noun}s`}.`}>${kind.none}</${Empty}></div>`}
      ${data && data.items.length > 0 && html`<div class="table"><table class="cards">
        <thead><tr>
          ${kind.columns.map(([head]) => html`<th key=${head} scope="col">${head}</th>`)}
          ${steers && html`<th scope="col"><span class="hidden-words">Actions</span></th>`}
        </tr></thead>
        <tbody>${data.items.map((item) => html`<tr key=${item.name}>
          ${kind.columns.map(([head, cell, look]) => html`<td key=${head} class=${look || ""}>${cell(item)}</td>`)}
          ${steers && html`<td class="end"><span class="buttons">
            ${kind.buttons && kind.buttons(item, reload)}
            <button class="tight" onClick=${() => setQuery({ edit: item.name, new: null })}>Edit<span class="hidden-words"> ${item.name}</span></button>
            <button class="tight danger" onClick=${() => remove(item)}>Delete<span class="hidden-words"> ${item.name}</span></button>
          </span></td>`}
        </tr>`)}</tbody>
      </table></div>`}
      ${more && more(data)}
      ${children}
    </div>`;
}

/** A name in the first column. */
export const named = ["Name", (item) => html`<span class="job-name">${item.name}</span>`, "wide"];
