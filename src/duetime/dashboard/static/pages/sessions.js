// Sessions: the browsers that are logged in.

import { setQuery, useData } from "../core/data.js";
import { act } from "../core/doing.js";
import { post } from "../core/http.js";
import { listPage } from "../core/pages.js";
import { placeIn } from "../core/place.js";
import { isRoot, may } from "../core/session.js";
import { html } from "../core/view.js";
import { askBack } from "../parts/asking.js";
import { Badge, Empty, Head, Loading, Moment, Pager, Segments, Wrong } from "../parts/basics.js";

const SCOPES = [["key", "This login"], ["tenant", "This tenant"], ["all", "All tenants"]];

const MOST = 60;
const short = (text) => (text.length > MOST ? `${text.slice(0, MOST - 1)}…` : text);

export function Sessions({ query }) {
  const of = query.of || "key";
  const place = placeIn(query);
  const { cursor } = place;
  const { data, error, reload } = useData((signal) => listPage("/v1/sessions", { of, page_size: 50, cursor }, signal), ["sessions", of, cursor], { every: 30000 });
  const scopes = SCOPES.slice(0, isRoot() ? 3 : may("manage_keys") ? 2 : 1);
  const revoke = async (session) => {
    const text = session.current ? "This is your current session: you must log in again." : "That browser must log in again.";
    if (await askBack({ title: `End the session of ${session.key_name}?`, text, yes: "End the session", no: "Keep it" })) {
      await act(() => post(`/v1/sessions/${session.session_id}/revoke`), "Session ended", { then: reload });
    }
  };
  return html`<${Head} title="Sessions">Browsers that are logged in. A session ends with its key, when it is idle, or here.</${Head}>
    ${scopes.length > 1 && html`<${Segments} label="Scope" value=${of} choices=${scopes} onPick=${(scope) => setQuery({ of: scope })} />`}
    <${Wrong} error=${error} />
    ${!data && !error && html`<${Loading} />`}
    ${data && !data.items.length && html`<div class="card"><${Empty} title="No browser is logged in." /></div>`}
    ${data && data.items.length > 0 && html`<div class="table" style=${{ marginTop: "12px" }}><table class="cards">
      <thead><tr><th scope="col">Key or person</th><th scope="col">Tenant</th><th scope="col">Address</th><th scope="col">Browser</th><th scope="col">Started</th><th scope="col">Last seen</th><th scope="col">Expires</th><th scope="col"><span class="hidden-words">Actions</span></th></tr></thead>
      <tbody>${data.items.map((session) => html`<tr key=${session.session_id}>
        <td class="wide job-name">${session.key_name}${session.role && ` (${session.role})`} ${session.current && html`<${Badge} status="ACTIVE" word="This session" />`}</td>
        <td>${session.tenant || "–"}</td>
        <td><code class="nowrap">${session.address || "–"}</code></td>
        <td class="soft small" title=${session.user_agent}>${short(session.user_agent) || "–"}</td>
        <td><${Moment} at=${session.created_at} /></td>
        <td><${Moment} at=${session.last_seen_at} /></td>
        <td><${Moment} at=${session.expires_at} /></td>
        <td class="end"><button class="tight danger" onClick=${() => revoke(session)}>End<span class="hidden-words"> the session of ${session.key_name}</span></button></td>
      </tr>`)}</tbody>
    </table></div>`}
    <${Pager} page=${data} place=${place} word="sessions" />`;
}
