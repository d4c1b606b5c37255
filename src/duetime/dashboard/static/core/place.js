// The address bar holds the whole view: page, tenant, filter, range, place in a list. A reload, Back and a shared link
// restore it. The tenant stays the same for as long as the document is loaded. `default` is not written, except for a
// person with several tenants, whose session has another one without a name.

const TENANT = "tenant";
const FIRST = "default";

const tenantIn = (search) => new URLSearchParams(search).get(TENANT);

let current = null;
let implied = FIRST;

/** The tenant that the address names, or null. */
export const namedTenant = () => tenantIn(location.search);

/** The tenant of this document; known once the session is. */
export function setTenant(name, { isOneOfSeveral = false } = {}) {
  current = name;
  implied = isOneOfSeveral ? null : FIRST;
  history.replaceState(history.state, "", inTenant(location.pathname + location.search));
}

/** An address of the dashboard with the tenant of this document, unless it names one. */
export function inTenant(href) {
  if (!href.startsWith("/") || href.startsWith("//")) return href;
  const url = new URL(href, location.origin);
  const name = url.searchParams.get(TENANT) || current || namedTenant() || FIRST;
  url.searchParams.delete(TENANT);
  if (name !== implied) url.searchParams.set(TENANT, name);
  return url.pathname + url.search + url.hash;
}

/** Whether a link stays in the tenant of this document. */
export const isSameTenant = (url) => (tenantIn(url.search) || FIRST) === (namedTenant() || FIRST);

const moved = new Set();

export const onMove = (callback) => {
  moved.add(callback);
  return () => moved.delete(callback);
};

/** Show another view. `state` is what Back and a reload restore besides the address. */
export function go(url, { replace = false, state = null } = {}) {
  history[replace ? "replaceState" : "pushState"](state, "", inTenant(url));
  moved.forEach((callback) => callback());
}

window.addEventListener("popstate", () => moved.forEach((callback) => callback()));

export const queryHere = () => Object.fromEntries(new URLSearchParams(location.search));

/** Change parts of the view: null removes one. Another filter begins at the first page of its list. */
export function setQuery(changes, { state = null, ...options } = {}) {
  const query = new URLSearchParams(Object.entries({ ...queryHere(), cursor: null, page: null, ...changes }).filter(([, value]) => value));
  go(query.size ? `${location.pathname}?${query}` : location.pathname, { state, ...options });
}

/** The place in a list, by cursor. The cursors of the pages before it are in the history entry: a shared link to a later
 * page has none, and leads back to the first page only. `name` tells two lists of one page apart. */
export function placeIn(query, name = "") {
  const [at, page, before] = [`${name}cursor`, `${name}page`, `${name}before`];
  const cursor = query[at];
  const number = Number(query[page]) || 1;
  const kept = history.state || {};
  const known = kept[before] || [];
  const to = (next, count, pages) => () =>
    setQuery({ cursor: query.cursor, page: query.page, [at]: next, [page]: count > 1 ? String(count) : null }, { state: { ...kept, [before]: pages } });
  return {
    cursor,
    number,
    first: number > 1 ? to(null, 1, []) : null,
    back: known.length ? to(known[known.length - 1], number - 1, known.slice(0, -1)) : null,
    on: (next) => to(next, number + 1, [...known, cursor || null])(),
  };
}
