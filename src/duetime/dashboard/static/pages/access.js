// Tenants and keys. The text of a key is shown once, when it is created.

import { useData } from "../core/data.js";
import { act } from "../core/doing.js";
import { ask, post } from "../core/http.js";
import { listPage } from "../core/pages.js";
import { isRoot, may } from "../core/session.js";
import { html, useState } from "../core/view.js";
import { now, number } from "../core/words.js";
import { askBack } from "../parts/asking.js";
import { Badge, Empty, Head, Loading, Moment, Pager, Wrong } from "../parts/basics.js";

const EXPIRIES = [["", "Default expiry"], ["7", "Expires in 7 days"], ["30", "Expires in 30 days"], ["365", "Expires in a year"], ["never", "Never expires"]];
const ROLES = ["viewer", "submitter", "operator", "admin", "worker"];

export function Access() {
  return html`<${Head} title="Tenants and keys">A key belongs to one tenant and has one role.</${Head}>
    <div class="stack">
      <${Keys} />
      ${isRoot() && html`<${Tenants} />`}
    </div>`;
}

const showOnce = (made) =>
  askBack({ title: "New key", text: "Copy the key now. It is not shown again.", secret: made.key, done: "Done" });

/** The request from the form. The server decides about empty fields. */
function keyFrom(form) {
  const wish = { role: form.get("role"), name: form.get("name") };
  const days = form.get("expires");
  if (days) wish.expires_at = days === "never" ? days : new Date(now() + days * 86400000).toISOString();
  const networks = form.get("networks").split(/[\s,]+/).filter(Boolean);
  if (networks.length) wish.networks = networks;
  return wish;
}

function stateOf(key) {
  if (key.revoked_at) return ["CANCELLED", "Revoked"];
  if (key.expires_at && Date.parse(key.expires_at) < Date.now()) return ["ENDED", "Expired"];
  return ["ACTIVE", "Valid"];
}

function Keys() {
  const [pages, setPages] = useState([]);
  const cursor = pages[pages.length - 1];
  const { data, error, reload } = useData((signal) => listPage("/v1/admin/keys", { page_size: 50, cursor }, signal), ["keys", cursor]);
  const create = async (event) => {
    event.preventDefault();
    const form = event.target;
    const made = await act(() => post("/v1/admin/keys", keyFrom(new FormData(form))), "Key created", { then: reload });
    if (!made) return;
    form.reset();
    await showOnce(made);
  };
  const rotate = async (key) => {
    const text = "This creates a new key and shows it once. The old key works for one more day. This cannot be undone.";
    if (!(await askBack({ title: `Rotate ${key.name}?`, text, yes: "Rotate the key" }))) return;
    const made = await act(() => post(`/v1/admin/keys/${key.key_id}/rotate`, { name: key.name }), "Key rotated. The old key works for one more day.", { then: reload });
    if (made) await showOnce(made);
  };
  const revoke = async (key) => {
    const text = "The key stops working at once on this server, and within seconds on others. This cannot be undone.";
    if (await askBack({ title: `Revoke ${key.name}?`, text, yes: "Revoke the key" })) {
      await act(() => post(`/v1/admin/keys/${key.key_id}/revoke`), `Revoked ${key.name}`, { then: reload });
    }
  };
  return html`<section aria-labelledby="keys">
    <h2 id="keys" style=${{ marginBottom: "12px" }}>Keys of this tenant</h2>
    <${Wrong} error=${error} />
    ${!data && !error && html`<${Loading} />`}
    ${data && !data.items.length && html`<div class="card"><${Empty} title="This tenant has no keys yet." /></div>`}
    ${data && data.items.length > 0 && html`<div class="table"><table class="cards">
      <thead><tr><th scope="col">Name</th><th scope="col">Role</th><th scope="col">State</th><th scope="col">Key</th><th scope="col">Networks</th><th scope="col">Last used</th><th scope="col">Expires</th><th scope="col"><span class="hidden-words">Actions</span></th></tr></thead>
      <tbody>${data.items.map((key) => {
        const [status, word] = stateOf(key);
        return html`<tr key=${key.key_id}>
          <td class="wide job-name">${key.name}</td>
          <td>${key.role}${key.queues.length ? ` (${key.queues.join(", ")})` : ""}</td>
          <td><${Badge} status=${status} word=${word} /></td>
          <td><code>${key.hint}</code></td>
          <td class="soft small">${key.networks.join(", ") || "any"}</td>
          <td><${Moment} at=${key.last_used_at} none="never" /></td>
          <td><${Moment} at=${key.expires_at} none="never" /></td>
          <td class="end">${status === "ACTIVE" && html`<span class="buttons">
            <button class="tight" onClick=${() => rotate(key)}>Rotate<span class="hidden-words"> ${key.name}</span></button>
            <button class="tight danger" onClick=${() => revoke(key)}>Revoke<span class="hidden-words"> ${key.name}</span></button>
          </span>`}</td>
        </tr>`;
      })}</tbody>
    </table></div>`}
    <${Pager} page=${data} pages=${pages} setPages=${setPages} word="keys" oldestFirst />
    ${may("manage_keys") && html`<form class="finder" style=${{ marginTop: "14px" }} onSubmit=${create} aria-label="New key">
      <label><span class="hidden-words">Role</span><select name="role">${ROLES.map((role) => html`<option key=${role} value=${role}>${role}</option>`)}</select></label>
      <label><span class="hidden-words">Name of the key</span><input name="name" required placeholder="User or program" autocomplete="off" /></label>
      <label><span class="hidden-words">Expiry</span><select name="expires">${EXPIRIES.map(([days, word]) => html`<option key=${days} value=${days}>${word}</option>`)}</select></label>
      <label><span class="hidden-words">Networks</span><input name="networks" placeholder="Any network, or 192.0.2.0/24" autocomplete="off" spellcheck=${false} /></label>
      <button>New key</button>
    </form>`}
  </section>`;
}

function Tenants() {
  const [pages, setPages] = useState([]);
  const cursor = pages[pages.length - 1];
  const { data, error, reload } = useData((signal) => listPage("/v1/admin/tenants", { page_size: 50, cursor }, signal), ["all tenants", cursor]);
  const create = async (event) => {
    event.preventDefault();
    const form = event.target;
    const { fires_per_second, ...body } = Object.fromEntries(new FormData(form));
    if (fires_per_second) body.limits = { fires_per_second: Number(fires_per_second) };
    if (await act(() => post("/v1/admin/tenants", body), "Tenant created", { then: reload })) form.reset();
  };
  const patch = (tenant, state) => ask("PATCH", `/v1/admin/tenants/${encodeURIComponent(tenant.name)}`, { body: { state } });
  const steer = (tenant) => {
    const [to, back, word] = tenant.state === "ACTIVE" ? ["SUSPENDED", "ACTIVE", "Suspended"] : ["ACTIVE", "SUSPENDED", "Resumed"];
    return act(() => patch(tenant, to), `${word} ${tenant.name}`, { undo: () => patch(tenant, back), then: reload });
  };
  const [limited, setLimited] = useState(null);
  const most = (value) => (value === null ? "no limit" : number(value));
  return html`<section aria-labelledby="tenants">
    <h2 id="tenants" style=${{ marginBottom: "12px" }}>Tenants</h2>
    <${Wrong} error=${error} />
    ${data && html`<div class="table"><table class="cards">
      <thead><tr><th scope="col">Name</th><th scope="col">State</th><th scope="col">Tier</th><th scope="col">Weight</th><th scope="col">Stored jobs</th><th scope="col">Running</th><th scope="col">Submissions/s</th><th scope="col">Fires/s</th><th scope="col"><span class="hidden-words">Actions</span></th></tr></thead>
      <tbody>${data.items.map((tenant) => html`<tr key=${tenant.name}>
        <td class="wide job-name">${tenant.name}</td>
        <td><${Badge} status=${tenant.state} /></td>
        <td>${tenant.tier}</td><td>${number(tenant.weight)}</td>
        <td>${most(tenant.limits.stored_jobs)}</td><td>${most(tenant.limits.running_runs)}</td><td>${most(tenant.limits.submissions_per_second)}</td><td>${most(tenant.limits.fires_per_second)}</td>
        <td class="end"><span class="buttons">
          <button class="tight" onClick=${() => setLimited(tenant)}>Limits<span class="hidden-words"> of ${tenant.name}</span></button>
          <button class="tight" onClick=${() => steer(tenant)}>${tenant.state === "ACTIVE" ? "Suspend" : "Resume"}<span class="hidden-words"> ${tenant.name}</span></button>
        </span></td>
      </tr>`)}</tbody>
    </table></div>`}
    ${limited && html`<${Limits} key=${limited.name} tenant=${limited} done=${() => { setLimited(null); reload(); }} />`}
    <${Pager} page=${data} pages=${pages} setPages=${setPages} word="tenants" oldestFirst />
    <form class="finder" style=${{ marginTop: "14px" }} onSubmit=${create} aria-label="New tenant">
      <label><span class="hidden-words">Tier</span><input name="tier" value="standard" required /></label>
      <label><span class="hidden-words">Name of the tenant</span><input name="name" required placeholder="New tenant" autocomplete="off" /></label>
      <label><span class="hidden-words">Fires per second</span><input name="fires_per_second" type="number" min="0.001" step="any" placeholder="Fires/s, or the default" /></label>
      <button>New tenant</button>
    </form>
  </section>`;
}

// Sends only changed fields. An empty field means no limit.
function Limits({ tenant, done }) {
  const shown = (value) => (value === null ? "" : String(value));
  const save = async (event) => {
    event.preventDefault();
    const given = [...new FormData(event.target)].filter(([name, value]) => value !== shown(tenant.limits[name]));
    const limits = Object.fromEntries(given.map(([name, value]) => [name, value === "" ? null : Number(value)]));
    const change = () => ask("PATCH", `/v1/admin/tenants/${encodeURIComponent(tenant.name)}`, { body: { limits } });
    await act(change, `Saved the limits of ${tenant.name}`, { then: done });
  };
  return html`<form class="card stack" style=${{ marginTop: "14px" }} onSubmit=${save} aria-label=${`Limits of ${tenant.name}`}>
    <h3>Limits of ${tenant.name}</h3>
    <div class="finder">${Object.entries(tenant.limits).map(([name, value]) => html`<label key=${name}>${name.replaceAll("_", " ")}
      <input name=${name} type="number" min="0" step="any" placeholder="no limit" defaultValue=${shown(value)} autocomplete="off" /></label>`)}</div>
    <span class="buttons"><button>Save limits</button><button type="button" onClick=${done}>Close</button></span>
  </form>`;
}
