// Logging in with a key, or through an identity provider. A one-time link needs no page.

import { logIn, loginMethods } from "../core/session.js";
import { html, useEffect, useState } from "../core/view.js";
import { Brand } from "../parts/frame.js";

export function Login({ onDone, over }) {
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const [providers, setProviders] = useState([]);
  useEffect(() => {
    loginMethods().then((found) => setProviders(found.providers), setError);
  }, []);
  const to = encodeURIComponent(location.pathname + location.search);
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
        ${used ? "This link was already used or has expired. " : ""}
        ${providers.length > 0 ? "Use your account, " : "Use "}an API key or a link from <code>duetime login-link</code>.
      </p>
      ${providers.map((each) => html`<a key=${each.name} class="button main" href="${each.login_path}?to=${to}">Log in with ${each.title}</a>`)}
      <label>
        <span>API key</span>
        <input name="key" type="password" autocomplete="off" required placeholder="dt_live_…" aria-describedby="key-error" />
      </label>
      <p id="key-error" class="wrong" role="alert">${error ? `${error.message}. ${error.remedy || ""}` : ""}</p>
      <button class=${providers.length > 0 ? "" : "main"} disabled=${busy}>Log in</button>
    </form>
  </main>`;
}
