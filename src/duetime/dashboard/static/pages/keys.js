// Keys. The text of a key is shown once, when it is created.

import { setQuery, useData } from "../core/data.js";
import { act } from "../core/doing.js";
import { post } from "../core/http.js";
import { listPage } from "../core/pages.js";
import { placeIn } from "../core/place.js";
import { html } from "../core/view.js";
import { now } from "../core/words.js";
import { askBack } from "../parts/asking.js";
import { Badge, Empty, Head, Loading, Moment, Pager, Wrong } from "../parts/basics.js";
import { Editor } from "../parts/editor.js";

const DAY = 86400000;

const showOnce = (made) =>
  askBack({ title: "New key", text: "Copy the key now. It is not shown again.", secret: made.key, done: "Done" });

function stateOf(key) {
  if (key.revoked_at) return ["CANCELLED", "Revoked"];
  if (key.expires_at && Date.parse(key.expires_at) < Date.now()) return ["ENDED", "Expired"];
  return ["ACTIVE", "Valid"];
}

const scopeOf = (key) =>
  [key.owner && `owner ${key.owner}`, key.tag && `tag ${key.tag}`, key.queues.length && `queues ${key.queues.join(", ")}`].filter(Boolean).join(", ");

export function Keys({ query }) {
  const place = placeIn(query);
  const { cursor } = place;
  const { data, error, reload } = useData((signal) => listPage("/v1/admin/keys", { page_size: 50, cursor }, signal), ["keys", cursor]);
  const close = () => setQuery({ new: null });
  const create = async (_, body) => {
    const made = await post("/v1/admin/keys", body);
    await act(async () => made, "Key created", { then: reload });
    close();
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
  const examples = { name: "User or program", expires_at: new Date(now() + 30 * DAY).toISOString(), networks: "192.0.2.0/24" };
  return html`<${Head} title="Keys" buttons=${html`<button class="main" onClick=${() => setQuery({ new: "1" })}>New key</button>`}>A key belongs to this tenant and has one role.</${Head}>
    <div class="stack">
      <${Wrong} error=${error} />
      ${query.new && html`<${Editor} request="KeyRequest" label="New key" start=${{ role: "viewer" }} examples=${examples} verb="Create" save=${create} close=${close} />`}
      ${!data && !error && html`<${Loading} />`}
      ${data && !data.items.length && html`<div class="card"><${Empty} title="This tenant has no keys yet." /></div>`}
      ${data && data.items.length > 0 && html`<div class="table"><table class="cards">
        <thead><tr><th scope="col">Name</th><th scope="col">Role</th><th scope="col">State</th><th scope="col">Key</th><th scope="col">Only</th><th scope="col">Networks</th><th scope="col">Last used</th><th scope="col">Expires</th><th scope="col"><span class="hidden-words">Actions</span></th></tr></thead>
        <tbody>${data.items.map((key) => {
          const [status, word] = stateOf(key);
          return html`<tr key=${key.key_id}>
            <td class="wide job-name">${key.name}</td>
            <td>${key.role}</td>
            <td><${Badge} status=${status} word=${word} /></td>
            <td><code>${key.hint}</code></td>
            <td class="soft small">${scopeOf(key) || "–"}</td>
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
      <${Pager} page=${data} place=${place} word="keys" labels=${["Older", "Newer"]} />
    </div>`;
}
