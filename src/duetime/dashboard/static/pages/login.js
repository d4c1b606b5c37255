// Logging in with a key. A one-time link needs no page.

import { logIn } from "../core/session.js";
import { html, useState } from "../core/view.js";
import { Brand } from "../parts/frame.js";

export function Login({ onDone, over }) {
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await logIn(new FormData(event.target).get("key"));
      onDone();
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  const used = location.hash === "#link-is-over";
  return html`<main class="login">
    <form class="card" onSubmit=${submit}>
      <${Brand} />
      <h1>${over ? "Session expired" : "Log in"}</h1>
      <p class="soft">
        ${used ? "This link was already used or has expired. " : ""}Use an API key or a link from
        <code>duetime login-link</code>.
      </p>
      <label>
        <span>API key</span>
        <input name="key" type="password" autocomplete="off" required placeholder="dt_live_…" aria-describedby="key-error" />
      </label>
      <p id="key-error" class="wrong" role="alert">${error ? `${error.message}. ${error.remedy || ""}` : ""}</p>
      <button class="main" disabled=${busy}>Log in</button>
    </form>
  </main>`;
}
