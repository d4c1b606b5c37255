// Values that may be secret: the page shows their names, and the values on request.

import { isNumberText } from "../core/json.js";
import { html, useState } from "../core/view.js";

const mask = (value) => {
  if (Array.isArray(value)) return value.map(mask);
  if (value && typeof value === "object" && !isNumberText(value)) return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, mask(each)]));
  return "••••••";
};

export function Masked({ value, problem }) {
  const [shown, setShown] = useState(false);
  if (problem) return html`<p class="trouble-line">The arguments cannot be decrypted: ${problem}</p>`;
  if (!value || !Object.keys(value).length) return html`<p class="soft">none</p>`;
  return html`<pre class="text">${JSON.stringify(shown ? value : mask(value), null, 2)}</pre>
    <button class="plain tight" aria-pressed=${String(shown)} onClick=${() => setShown(!shown)}>${shown ? "Hide values" : "Show values"}</button>`;
}
