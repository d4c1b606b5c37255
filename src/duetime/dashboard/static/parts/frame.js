// The frame around every page: the menu, the current key, and whether the event stream is connected.

import { useData } from "../core/data.js";
import { complain } from "../core/doing.js";
import { get } from "../core/http.js";
import { watchState } from "../core/live.js";
import { isRoot, isScoped, logOut, scopeWords } from "../core/session.js";
import { nextTheme, theme } from "../core/theme.js";
import { html, useEffect, useState } from "../core/view.js";
import { BROWSER, ZONES, setZone, useZone } from "../core/zone.js";

export const Brand = ({ href = "/" }) => html`<a class="brand" href=${href}>
  <svg viewBox="0 0 32 32" aria-hidden="true" fill="none" stroke="currentColor" stroke-linecap="round" stroke-linejoin="round">
    <circle cx="16" cy="16" r="13" stroke-width="4" />
    <path d="M16 8.5V16l5 3.5" stroke-width="3.5" />
  </svg>
  duetime
</a>`;

function Live() {
  const [state, setState] = useState("starting");
  useEffect(() => watchState(setState), []);
  const words = { live: "Live", away: "Reconnecting…", starting: "Connecting…" };
  return html`<span class="badge ${state === "live" ? "good" : "warn"}" role="status">${words[state]}</span>`;
}

function Theme() {
  const [found, setFound] = useState(theme);
  return html`<button class="plain tight" onClick=${() => setFound(nextTheme())}>Theme: ${found}</button>`;
}

function Zone() {
  const zone = useZone();
  return html`<label>
    <span>Times in</span>
    <select value=${zone} onChange=${(event) => setZone(event.target.value)}>
      ${ZONES.map((name) => html`<option key=${name} value=${name} selected=${name === zone}>${name}${name === BROWSER ? " (this browser)" : ""}</option>`)}
    </select>
  </label>`;
}

/** The same page in another tenant; the page of one object is not there. */
function openTenant(name) {
  const [, page, object] = location.pathname.split("/");
  location.assign(`/${object ? "" : page}?tenant=${encodeURIComponent(name)}`);
}

const MOST = 200;

/** A menu of the tenants; a text field where there are too many. The name is looked up first. */
function Tenants({ me }) {
  const { data, reload } = useData((signal) => get("/v1/admin/tenants", { page_size: MOST }, signal), ["tenants"]);
  const names = [...new Set([me.tenant, ...(data ? data.items.map((each) => each.name) : [])])];
  const change = async (event) => {
    const field = event.target;
    const name = field.value.trim();
    if (!name || name === me.tenant) {
      field.value = me.tenant;
      return;
    }
    try {
      if (!names.includes(name)) await get(`/v1/admin/tenants/${encodeURIComponent(name)}`);
    } catch (error) {
      field.value = me.tenant;
      complain(error);
      return;
    }
    openTenant(name);
  };
  const field =
    data && data.next_cursor
      ? html`<input list="tenants-of-all" value=${me.tenant} autocomplete="off" spellcheck=${false} onChange=${change} />
          <datalist id="tenants-of-all">${names.map((name) => html`<option key=${name} value=${name} />`)}</datalist>`
      : html`<select onChange=${change} onFocus=${reload} value=${me.tenant}>
          ${names.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
        </select>`;
  return html`<label><span class="hidden-words">Tenant</span>${field}</label>`;
}

/** A menu of the tenants that a person has a role in. */
function OwnTenants({ me }) {
  const change = (event) => openTenant(event.target.value);
  return html`<label><span class="hidden-words">Tenant</span>
    <select onChange=${change} value=${me.tenant}>
      ${me.tenants.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
    </select>
  </label>`;
}

const isIn = (path, href) => (href === "/" ? path === "/" : path === href || path.startsWith(`${href}/`));

const Place = ({ place, path }) => html`<a href=${place.href} aria-current=${isIn(path, place.href) ? "page" : null}>${place.word}</a>`;

const SHUT = "duetime.shut";
const shutGroups = () => new Set((localStorage.getItem(SHUT) || "Settings").split(","));

/** A group of pages, open or shut as it was left; open while one of its pages is shown. */
function Group({ word, places, path }) {
  const inside = places.some((place) => isIn(path, place.href));
  const [open, setOpen] = useState(() => !shutGroups().has(word));
  const toggle = (event) => {
    event.preventDefault();
    const shut = shutGroups();
    if (open) shut.add(word);
    else shut.delete(word);
    localStorage.setItem(SHUT, [...shut].join() || "none");
    setOpen(!open);
  };
  return html`<details open=${open || inside}>
    <summary onClick=${toggle}>${word}</summary>
    ${places.map((place) => html`<${Place} key=${place.href} place=${place} path=${path} />`)}
  </details>`;
}

export function Frame({ me, path, places, children }) {
  const [open, setOpen] = useState(false);
  useEffect(() => setOpen(false), [path]);
  const leave = async () => {
    const next = await logOut();
    location.assign(next || "/");
  };
  return html`<div class="frame">
    <a class="skip" href="#content">Skip to content</a>
    <aside class="rail ${open ? "open" : ""}" aria-label="Menu and login">
      <${Brand} />
      <button class="menu tight" aria-expanded=${String(open)} aria-controls="places" onClick=${() => setOpen(!open)}>Menu</button>
      <nav id="places" aria-label="Pages">
        ${places.filter((place) => !place.group).map((place) => html`<${Place} key=${place.href} place=${place} path=${path} />`)}
        ${[...new Set(places.map((place) => place.group))].filter(Boolean).map((group) => html`<${Group} key=${group} word=${group} path=${path} places=${places.filter((place) => place.group === group)} />`)}
      </nav>
      <footer>
        ${isRoot() ? html`<${Tenants} me=${me} />` : me.tenants.length > 1 ? html`<${OwnTenants} me=${me} />` : html`<strong>${me.tenant}</strong>`}
        <div><${Live} /></div>
        <div title=${me.key_name}>${(me.user && me.user.email) || me.key_name} (${me.role})</div>
        ${isScoped() && html`<div>${scopeWords()}</div>`}
        <div class="row">
          <${Theme} />
          <button class="plain tight" onClick=${leave}>Log out</button>
        </div>
      </footer>
    </aside>
    <div class="page">
      <header class="bar"><${Zone} /></header>
      <main id="content">${children}</main>
    </div>
  </div>`;
}
