// The dialog that confirms irreversible actions, and shows secrets once.

import { html, useEffect, useRef, useState } from "../core/view.js";

let open = () => {};

/** Resolves to true if the user confirms. With `done` it is a message with one button. */
export const askBack = (question) => new Promise((answer) => open({ ...question, answer }));

export function Asking() {
  const [question, setQuestion] = useState(null);
  const dialog = useRef(null);
  open = setQuestion;
  useEffect(() => {
    if (question) dialog.current.showModal();
  }, [question]);
  if (!question) return null;
  const answer = (yes) => {
    dialog.current.close();
    setQuestion(null);
    question.answer(yes);
  };
  const cancelled = (event) => {
    event.preventDefault();
    answer(false);
  };
  return html`<dialog ref=${dialog} onCancel=${cancelled} aria-labelledby="asking">
    <h2 id="asking">${question.title}</h2>
    <p>${question.text}</p>
    ${question.secret && html`<code class="secret">${question.secret}</code>`}
    <div class="buttons">
      ${!question.done && html`<button type="button" onClick=${() => answer(false)}>${question.no || "Cancel"}</button>`}
      <button type="button" class=${question.done ? "main" : "danger"} onClick=${() => answer(true)}>${question.done || question.yes}</button>
    </div>
  </dialog>`;
}
