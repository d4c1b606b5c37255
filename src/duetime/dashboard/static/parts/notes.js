// Notes about actions, shown for eight seconds, with Undo where possible.

import { forget, useNotes } from "../core/doing.js";
import { html } from "../core/view.js";

export function Notes() {
  const notes = useNotes();
  return html`<div class="notes" role="status" aria-live="polite">
    ${notes.map(
      (note) => html`<div key=${note.id} class="note fade ${note.bad ? "bad" : ""}">
        <div>${note.text}${note.remedy ? ` – ${note.remedy}` : ""}</div>
        ${note.undo &&
        html`<button
          class="tight"
          onClick=${() => {
            forget(note.id);
            note.undo();
          }}
        >
          Undo
        </button>`}
        <button class="tight" aria-label="Dismiss" onClick=${() => forget(note.id)}>✕</button>
      </div>`,
    )}
  </div>`;
}
