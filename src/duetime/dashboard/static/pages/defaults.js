// Defaults: options that jobs of the tenant get unless their task or their submission gives others.

import { setQuery, useData } from "../core/data.js";
import { act } from "../core/doing.js";
import { ask, get } from "../core/http.js";
import { may } from "../core/session.js";
import { html } from "../core/view.js";
import { Empty, Head, Loading, Wrong } from "../parts/basics.js";
import { Editor } from "../parts/editor.js";

const shown = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value));

export function Defaults({ query }) {
  const { data, error, reload } = useData((signal) => get("/v1/defaults", {}, signal), ["defaults"]);
  const put = (body) => ask("PUT", "/v1/defaults", { body });
  const close = () => setQuery({ edit: null });
  const save = async (_, body) => {
    const answer = await put(body);
    await act(async () => answer, "Saved the defaults", { undo: () => put(data), then: reload });
    close();
  };
  const steers = may("manage_defaults");
  const edits = steers && data && query.edit;
  const button = steers && !edits && html`<button class="main" onClick=${() => setQuery({ edit: "1" })}>Edit defaults</button>`;
  return html`<${Head} title="Defaults" buttons=${button}>Options that jobs of this tenant get unless their task or their submission gives others.</${Head}>
    <${Wrong} error=${error} />
    ${!data && !error && html`<${Loading} />`}
    ${edits && html`<${Editor} request="TenantDefaults" label="Edit defaults" start=${data} save=${save} close=${close} />`}
    ${data && !edits && html`<section class="card" aria-label="Defaults">
      ${Object.keys(data).length ? html`<dl class="facts">${Object.entries(data).map(([name, value]) => html`<dt key=${name}>${name}</dt><dd><code>${shown(value)}</code></dd>`)}</dl>` : html`<${Empty} title="This tenant has no defaults." />`}
    </section>`}`;
}
