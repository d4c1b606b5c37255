// A form for the body of a request, made from its schema: every field of the request, with its help, its bounds and the
// server's complaint about it.

import { $defs } from "../core/request_schemas.js";
import { formOf } from "../core/schema.js";
import { html, useState } from "../core/view.js";
import { SchemaFields } from "./schema_fields.js";

const root = { $defs };

export const formFor = (request) => formOf({ $ref: `#/$defs/${request}` }, root);

/** The part of an answer that its request accepts. */
export function requestOf(request, item) {
  const names = formFor(request).properties().map((each) => each.name);
  return Object.fromEntries(names.filter((name) => item[name] !== null && item[name] !== undefined).map((name) => [name, item[name]]));
}

/** `save` gets the name and the body, and throws what the server refuses. Without `naming` there is no field for a name. */
export function Editor({ request, label, start = {}, name = null, naming = null, save, close, verb = "Save", hide = [], examples = {} }) {
  const form = formFor(request);
  const [value, setValue] = useState(start);
  const [called, setCalled] = useState(name || "");
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await save(called.trim(), value);
    } catch (problem) {
      setError(problem);
    }
    setBusy(false);
  };
  const field = error && error.field && error.field.replace(/^body\./, "");
  const known = error && { ...error, message: error.message, field };
  const isNamed = (path) => path && form.properties().some((each) => !hide.includes(each.name) && (path === each.name || path.startsWith(`${each.name}.`) || path.startsWith(`${each.name}[`)));
  return html`<form class="card form editor" onSubmit=${submit} aria-label=${label}>
    <h2>${label}</h2>
    ${naming && html`<label><span>${naming}</span>
      <input id="name-of-it" required maxlength="100" autocomplete="off" spellcheck=${false} disabled=${name !== null} value=${called} onInput=${(event) => setCalled(event.target.value)} /></label>`}
    <${SchemaFields} form=${form} value=${value} set=${setValue} error=${known} hide=${hide} examples=${examples} />
    ${error && html`<p class="wrong" role="alert">${isNamed(field) ? `Not saved: see ${field}.` : `${field ? `${field}: ` : ""}${error.message}${error.remedy ? ` – ${error.remedy}` : ""}`}</p>`}
    <div class="buttons">
      <button class="main" disabled=${busy}>${verb}</button>
      <button type="button" onClick=${close}>Close</button>
    </div>
  </form>`;
}
