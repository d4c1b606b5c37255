// Secrets: names, where they may be sent, and who may use them. A value is stored and replaced, and never shown.

import { useData } from "../core/data.js";
import { act } from "../core/doing.js";
import { get, post } from "../core/http.js";
import { html } from "../core/view.js";
import { askBack } from "../parts/asking.js";
import { Empty, Moment } from "../parts/basics.js";
import { Managed, named } from "../parts/managed.js";

const KIND = {
  title: "Secrets",
  intro: "Values for the headers of HTTP and gRPC targets. They are stored encrypted, sent to their hosts only, and never shown.",
  noun: "secret",
  path: "/v1/secrets",
  request: "SecretRequest",
  allowed: "manage_keys",
  irreversible: true,
  start: { hosts: [null] },
  edits: (item) => ({ hosts: item.hosts, ...(item.roles.length ? { roles: item.roles } : {}) }),
  none: "Create one, and name it in a header: {{secret:name}}.",
  gone: "Attempts that need it fail from then on.",
  columns: [
    named,
    ["Sent to", (item) => html`<span class="small">${item.hosts.join(", ")}</span>`],
    ["Used by", (item) => html`<span class="soft small">${item.roles.join(", ") || "all who submit"}</span>`],
    ["Changed", (item) => html`<${Moment} at=${item.changed_at} />`],
    ["Created", (item) => html`<${Moment} at=${item.created_at} />`],
  ],
};

export const Secrets = ({ query }) => html`<${Managed} kind=${KIND} query=${query}><${Signing} /></${Managed}>`;

function Signing() {
  const { data, reload } = useData((signal) => get("/v1/signing-secrets", {}, signal), ["signing"]);
  const rotate = async () => {
    const text = "Requests are signed with the old secret too for a day, so that receivers can switch.";
    if (!(await askBack({ title: "Create a signing secret?", text, yes: "Create it" }))) return;
    const made = await act(() => post("/v1/signing-secrets/rotate"), "Created a signing secret", { then: reload });
    if (made) await askBack({ title: "New signing secret", text: "Copy it now. It is not shown again.", secret: made.secret, done: "Done" });
  };
  return html`<section aria-labelledby="signing" class="card">
    <header><h2 id="signing">Signing secrets</h2><button class="tight" onClick=${rotate}>New signing secret</button></header>
    <p class="hint">They sign the requests to targets and webhooks.</p>
    ${data && !data.items.length && html`<${Empty} title="There are no signing secrets." />`}
    ${data && data.items.length > 0 && html`<dl class="facts">${data.items.map(
      (each) => html`<dt key=${each.secret_id}><code class="small">${each.secret_id}</code></dt>
        <dd>created <${Moment} at=${each.created_at} />${each.expires_at ? html`, ends <${Moment} at=${each.expires_at} />` : ", in use"}</dd>`,
    )}</dl>`}
  </section>`;
}
