// Tenants, for the operator of the service: states, limits, usage, export and erasure.

import { go, setQuery, useData } from "../core/data.js";
import { act, complain } from "../core/doing.js";
import { Problem, ask, get, post } from "../core/http.js";
import { listPage } from "../core/pages.js";
import { placeIn } from "../core/place.js";
import { html, useState } from "../core/view.js";
import { date, length, number, plural, title } from "../core/words.js";
import { askBack } from "../parts/asking.js";
import { Badge, Empty, Exact, Head, Loading, Pager, Wrong } from "../parts/basics.js";
import { Editor, formFor } from "../parts/editor.js";

const LOOKS = { ACTIVE: "ACTIVE", SUSPENDED: "SUSPENDED", DELETING: "RETRYING" };
const path = (name, verb = "") => `/v1/admin/tenants/${encodeURIComponent(name)}${verb}`;
const most = (value) => (value === null || value === undefined ? "no limit" : number(value));

export function Tenants({ query }) {
  const place = placeIn(query);
  const { cursor } = place;
  const { data, error, reload } = useData((signal) => listPage("/v1/admin/tenants", { page_size: 50, cursor }, signal), ["all tenants", cursor], { every: 10000 });
  const close = () => setQuery({ new: null });
  const create = async (_, body) => {
    const made = await post("/v1/admin/tenants", body);
    await act(async () => made, `Created ${made.name}`, { then: reload });
    close();
  };
  return html`<${Head} title="Tenants" buttons=${html`<button class="main" onClick=${() => setQuery({ new: "1" })}>New tenant</button>`}>Each has its own jobs, keys and limits, and sees nothing of the others.</${Head}>
    <div class="stack">
      <${Wrong} error=${error} />
      ${query.new && html`<${Editor} request="TenantRequest" label="New tenant" start=${{}} verb="Create" save=${create} close=${close} />`}
      ${!data && !error && html`<${Loading} />`}
      ${data && html`<div class="table"><table class="cards">
        <thead><tr><th scope="col">Name</th><th scope="col">State</th><th scope="col">Tier</th><th scope="col">Weight</th><th scope="col">Stored jobs</th><th scope="col">Running</th><th scope="col">Submissions/s</th><th scope="col">Fires/s</th><th scope="col">Created</th></tr></thead>
        <tbody>${data.items.map((tenant) => html`<tr key=${tenant.name}>
          <td class="wide"><a class="job-name" href="/tenants/${encodeURIComponent(tenant.name)}">${tenant.name}</a></td>
          <td><${Badge} status=${LOOKS[tenant.state]} word=${title(tenant.state)} /></td>
          <td>${tenant.tier}</td><td>${number(tenant.weight)}</td>
          <td>${most(tenant.limits.stored_jobs)}</td><td>${most(tenant.limits.running_runs)}</td><td>${most(tenant.limits.submissions_per_second)}</td><td>${most(tenant.limits.fires_per_second)}</td>
          <td><${Exact} at=${tenant.created_at} /></td>
        </tr>`)}</tbody>
      </table></div>`}
      <${Pager} page=${data} place=${place} word="tenants" labels=${["Older", "Newer"]} />
      <${Erasures} query=${query} />
    </div>`;
}

export function TenantPage({ id, query }) {
  const name = decodeURIComponent(id);
  const { data: tenant, error, reload } = useData((signal) => get(path(name), {}, signal), ["tenant", name], { every: 10000 });
  if (error && !tenant) return html`<${Head} title="Tenant" /><${Wrong} error=${error} />`;
  if (!tenant) return html`<${Head} title="Tenant" /><${Loading} />`;
  const patch = (body) => ask("PATCH", path(name), { body });
  const steer = () => {
    const [to, back, word] = tenant.state === "ACTIVE" ? ["SUSPENDED", "ACTIVE", "Suspended"] : ["ACTIVE", "SUSPENDED", "Resumed"];
    return act(() => patch({ state: to }), `${word} ${name}`, { undo: () => patch({ state: back }), then: reload });
  };
  const undelete = () => act(() => post(path(name, "/undelete")), `Kept ${name}`, { then: reload });
  const buttons = html`<a class="button" href="/?tenant=${encodeURIComponent(name)}">Open its dashboard</a>
    <a class="button" href="/defaults?tenant=${encodeURIComponent(name)}">Defaults</a>
    ${tenant.state === "DELETING" ? html`<button onClick=${undelete}>Take back the deletion</button>` : html`<button onClick=${steer}>${tenant.state === "ACTIVE" ? "Suspend" : "Resume"}</button>`}`;
  return html`<${Head} title=${name} buttons=${buttons}><${Badge} status=${LOOKS[tenant.state]} word=${title(tenant.state)} /> number ${tenant.number}, created <${Exact} at=${tenant.created_at} /></${Head}>
    <div class="stack">
      <${Limits} tenant=${tenant} query=${query} patch=${patch} reload=${reload} />
      <${Usage} name=${name} />
      <${Ending} tenant=${tenant} reload=${reload} />
    </div>`;
}

/** An emptied field removes the limit. */
function Limits({ tenant, query, patch, reload }) {
  const names = formFor("LimitsBody").properties().map((each) => each.name);
  const given = Object.fromEntries(names.filter((name) => tenant.limits[name] !== null && tenant.limits[name] !== undefined).map((name) => [name, tenant.limits[name]]));
  const close = () => setQuery({ edit: null });
  const save = async (_, body) => {
    const changed = names.filter((name) => body[name] !== given[name]);
    const pick = (from) => Object.fromEntries(changed.map((name) => [name, from[name] === undefined ? null : from[name]]));
    const answer = await patch({ limits: pick(body) }).catch((problem) => {
      problem.field = problem.field && problem.field.replace(/^limits\./, "");
      throw problem;
    });
    await act(async () => answer, `Saved the limits of ${tenant.name}`, { undo: () => patch({ limits: pick(given) }), then: reload });
    close();
  };
  if (query.edit === "limits") return html`<${Editor} request="LimitsBody" label=${`Limits of ${tenant.name}`} start=${given} verb="Save limits" save=${save} close=${close} />`;
  return html`<section class="card" aria-labelledby="limits">
    <header><h2 id="limits">Limits</h2><button class="tight" onClick=${() => setQuery({ edit: "limits" })}>Edit limits</button></header>
    <dl class="facts wide">${names.map((name) => html`<div key=${name}><dt>${title(name.toUpperCase().replaceAll("_", " "))}</dt><dd>${name.endsWith("_days") && tenant.limits[name] === null ? "as the settings say" : most(tenant.limits[name])}</dd></div>`)}</dl>
  </section>`;
}

function download(name, type, parts) {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

const inTenantOf = (name) => ({ headers: { "Duetime-Tenant": name } });

function Usage({ name }) {
  const { data, error } = useData((signal) => ask("GET", "/v1/usage", { signal, ...inTenantOf(name) }), ["usage", name], { every: 60000 });
  const csv = async () => {
    try {
      const answer = await fetch("/v1/usage?format=csv", inTenantOf(name));
      if (!answer.ok) throw new Problem(answer.status, await answer.json().catch(() => ({})));
      download(`usage-${name}.csv`, "text/csv", [await answer.text()]);
    } catch (problem) {
      complain(problem);
    }
  };
  return html`<section aria-labelledby="usage">
    <header class="row-head"><h2 id="usage">Usage this month, by day (UTC)</h2><button class="tight" onClick=${csv}>Download as CSV</button></header>
    <${Wrong} error=${error} />
    ${data && !data.items.length && html`<div class="card"><${Empty} title="Nothing was counted this month." /></div>`}
    ${data && data.items.length > 0 && html`<div class="table"><table class="cards">
      <thead><tr><th scope="col">Day</th><th scope="col">Runs</th><th scope="col">Failed</th><th scope="col">Attempts</th><th scope="col">Time</th><th scope="col">Bytes</th></tr></thead>
      <tbody>${data.items.map((each) => html`<tr key=${each.day}>
        <td class="wide">${date(each.day)} ${!each.final && html`<span class="soft small">so far</span>`}</td>
        <td>${number(each.runs)}</td><td>${number(each.failed)}</td><td>${number(each.attempts)}</td><td>${length(each.seconds)}</td><td>${number(each.bytes)}</td>
      </tr>`)}</tbody>
    </table></div>`}
  </section>`;
}

function Ending({ tenant, reload }) {
  const { name } = tenant;
  const [progress, setProgress] = useState(null);
  const [confirm, setConfirm] = useState("");
  const exported = async () => {
    const lines = [];
    try {
      const plan = await ask("POST", "/v1/export", inTenantOf(name));
      for (const [place, section] of plan.sections.entries()) {
        for (let cursor = null; ; ) {
          setProgress(`${section}, section ${place + 1} of ${plan.sections.length}`);
          const page = await ask("GET", `/v1/export/${section}`, { query: { cursor }, ...inTenantOf(name) });
          lines.push(page.items.map((item) => `${JSON.stringify({ section, ...item })}\n`).join(""));
          cursor = page.next_cursor;
          if (!cursor) break;
        }
      }
      download(`export-${name}.jsonl`, "application/x-ndjson", lines);
    } catch (problem) {
      complain(problem);
    }
    setProgress(null);
  };
  const erase = async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const grace = form.get("grace");
    const text = `Everything that ${name} owns is removed: jobs, history, archive, keys. ${grace === "0" ? "It begins at once and cannot be undone." : "Until then it can be taken back."}`;
    if (!(await askBack({ title: `Delete the tenant ${name}?`, text, yes: "Delete the tenant", no: "Keep it" }))) return;
    const made = await act(() => post(path(name, "/delete"), { confirm, grace }), `The deletion of ${name} has begun`);
    if (made) go(`/tenants?erasure=${made.number}`);
  };
  return html`<section class="card" aria-labelledby="ending">
    <h2 id="ending">Export and deletion</h2>
    <p>Everything that the tenant owns, as one file with a JSON object in each line. For large tenants use <code>duetime export</code>.</p>
    <div class="buttons actions"><button disabled=${progress !== null} onClick=${exported}>Export everything</button>${progress && html`<span class="soft" role="status">${progress}</span>`}</div>
    ${tenant.state !== "DELETING" && name !== "default" && html`<form class="between" style=${{ marginTop: "18px" }} onSubmit=${erase} aria-label="Delete the tenant">
      <label><span>Type its name to delete it</span><input value=${confirm} autocomplete="off" onInput=${(event) => setConfirm(event.target.value)} /></label>
      <label><span>after</span><select name="grace"><option value="7d">7 days</option><option value="24h">a day</option><option value="0">no delay</option></select></label>
      <button class="danger" disabled=${confirm !== name}>Delete the tenant</button>
    </form>`}
  </section>`;
}

/** Deletions of tenants, with what was removed so far. */
function Erasures({ query }) {
  const place = placeIn(query, "erasures_");
  const { cursor } = place;
  const { data } = useData((signal) => listPage("/v1/admin/erasures", { page_size: 20, cursor }, signal), ["erasures", cursor], { every: 2000 });
  if (!data || !data.items.length) return null;
  const removed = (each) => Object.values(each.removed).reduce((sum, rows) => sum + rows, 0);
  return html`<section aria-labelledby="erasures">
    <h2 id="erasures" class="above">Deleted tenants</h2>
    <div class="table"><table class="cards">
      <thead><tr><th scope="col">Tenant</th><th scope="col">State</th><th scope="col">Removed</th><th scope="col">Asked for</th><th scope="col">Begins</th><th scope="col">Finished</th></tr></thead>
      <tbody>${data.items.map((each) => html`<tr key=${each.number} aria-current=${String(each.number) === query.erasure ? "true" : null}>
        <td class="wide">${each.tenant ? html`<a class="job-name" href="/tenants/${encodeURIComponent(each.tenant)}">${each.tenant}</a>` : html`<span class="job-name">number ${each.number}</span>`}</td>
        <td><${Badge} status=${each.problem ? "FAILED" : each.status === "DONE" ? "SUCCEEDED" : each.status === "WAITING" ? "PENDING" : "RUNNING"} word=${title(each.status)} />
          ${each.table && html`<div class="soft small">in ${each.table}</div>`}${each.problem && html`<div class="small">${each.problem}</div>`}</td>
        <td>${removed(each) ? html`<details><summary>${plural(removed(each), "row")}</summary>${Object.entries(each.removed).map(([table, rows]) => html`<div class="small" key=${table}>${table}: ${number(rows)}</div>`)}</details>` : "–"}</td>
        <td class="small"><${Exact} at=${each.requested_at} /> by ${each.requested_by}</td>
        <td class="small"><${Exact} at=${each.erase_at} /></td>
        <td class="small"><${Exact} at=${each.finished_at} /></td>
      </tr>`)}</tbody>
    </table></div>
    <${Pager} page=${data} place=${place} word="deletions" />
  </section>`;
}
