// The routes. Links are ordinary links; links to the dashboard's own pages are followed without a reload.

import { go, useAddress } from "./core/data.js";
import { onSessionOver } from "./core/http.js";
import { closeStream, openStream } from "./core/live.js";
import { isSameTenant, namedTenant } from "./core/place.js";
import { isScoped, may, scopeWords, whoAmI } from "./core/session.js";
import { useTheme } from "./core/theme.js";
import { html, render, useEffect, useState } from "./core/view.js";
import { useZone } from "./core/zone.js";
import { Alerts } from "./pages/alerts.js";
import { Archive } from "./pages/archive.js";
import { Audit } from "./pages/audit.js";
import { Breakers } from "./pages/breakers.js";
import { BulkActionsPage } from "./pages/bulk_actions.js";
import { Calendar } from "./pages/calendar.js";
import { Calendars } from "./pages/calendars.js";
import { CheckIns } from "./pages/checkins.js";
import { DeadLetters } from "./pages/dead_letters.js";
import { Defaults } from "./pages/defaults.js";
import { Graph, Graphs } from "./pages/graphs.js";
import { Issuers } from "./pages/issuers.js";
import { Job } from "./pages/job.js";
import { EditJob, NewJob } from "./pages/job_form.js";
import { Jobs, Schedules } from "./pages/jobs.js";
import { Keys } from "./pages/keys.js";
import { Login } from "./pages/login.js";
import { Notifications } from "./pages/notifications.js";
import { Now } from "./pages/now.js";
import { Queues } from "./pages/queues.js";
import { Run } from "./pages/run.js";
import { Runs } from "./pages/runs.js";
import { Secrets } from "./pages/secrets.js";
import { Sessions } from "./pages/sessions.js";
import { Sources } from "./pages/sources.js";
import { Streams } from "./pages/streams.js";
import { TenantPage, Tenants } from "./pages/tenants.js";
import { TrendsPage } from "./pages/trends.js";
import { Workers } from "./pages/workers.js";
import { Asking } from "./parts/asking.js";
import { Shortcuts } from "./parts/shortcuts.js";
import { Empty, Wrong } from "./parts/basics.js";
import { Frame } from "./parts/frame.js";
import { Notes } from "./parts/notes.js";

/** Pages that also work for a login that sees some jobs of the tenant only. */
const IN_SCOPE = true;

const PAGES = [
  [/^\/$/, Now, "Now"],
  [/^\/trends$/, TrendsPage, "Trends"],
  [/^\/jobs$/, Jobs, "Jobs", IN_SCOPE],
  [/^\/jobs\/new$/, NewJob, "New job", IN_SCOPE],
  [/^\/jobs\/([^/]+)\/edit$/, EditJob, "Edit job", IN_SCOPE],
  [/^\/jobs\/([^/]+)$/, Job, "Job", IN_SCOPE],
  [/^\/schedules$/, Schedules, "Schedules", IN_SCOPE],
  [/^\/runs$/, Runs, "Runs", IN_SCOPE],
  [/^\/runs\/([^/]+)$/, Run, "Run", IN_SCOPE],
  [/^\/graphs$/, Graphs, "Graphs"],
  [/^\/graphs\/([^/]+)$/, Graph, "Graph"],
  [/^\/calendar$/, Calendar, "Calendar"],
  [/^\/dead-letters$/, DeadLetters, "Dead letters", IN_SCOPE],
  [/^\/bulk-actions$/, BulkActionsPage, "Bulk actions"],
  [/^\/queues$/, Queues, "Queues"],
  [/^\/workers$/, Workers, "Workers"],
  [/^\/breakers$/, Breakers, "Breakers"],
  [/^\/streams$/, Streams, "Streams"],
  [/^\/alerts$/, Alerts, "Alerts"],
  [/^\/checkins$/, CheckIns, "Check-ins"],
  [/^\/notifications$/, Notifications, "Notifications"],
  [/^\/calendars$/, Calendars, "Calendars"],
  [/^\/defaults$/, Defaults, "Defaults"],
  [/^\/secrets$/, Secrets, "Secrets"],
  [/^\/sources$/, Sources, "Sources"],
  [/^\/issuers$/, Issuers, "Issuers"],
  [/^\/keys$/, Keys, "Keys"],
  [/^\/sessions$/, Sessions, "Sessions"],
  [/^\/tenants$/, Tenants, "Tenants"],
  [/^\/tenants\/([^/]+)$/, TenantPage, "Tenant"],
  [/^\/archive$/, Archive, "Archive"],
  [/^\/audit$/, Audit, "Audit"],
];

const PLACES = [
  { href: "/", word: "Now" },
  { href: "/trends", word: "Trends" },
  { href: "/schedules", word: "Schedules", inScope: IN_SCOPE },
  { href: "/jobs", word: "Jobs", inScope: IN_SCOPE },
  { href: "/runs", word: "Runs", inScope: IN_SCOPE },
  { href: "/graphs", word: "Graphs" },
  { href: "/calendar", word: "Calendar" },
  { href: "/dead-letters", word: "Dead letters", inScope: IN_SCOPE },
  { href: "/bulk-actions", word: "Bulk actions" },
  { href: "/queues", word: "Queues", group: "Operations" },
  { href: "/streams", word: "Streams", group: "Operations" },
  { href: "/workers", word: "Workers", group: "Operations" },
  { href: "/breakers", word: "Breakers", group: "Operations" },
  { href: "/alerts", word: "Alerts", group: "Operations" },
  { href: "/checkins", word: "Check-ins", group: "Operations" },
  { href: "/notifications", word: "Notifications", group: "Operations" },
  { href: "/calendars", word: "Calendars", group: "Settings" },
  { href: "/defaults", word: "Defaults", group: "Settings" },
  { href: "/sources", word: "Sources", group: "Settings" },
  { href: "/secrets", word: "Secrets", group: "Settings", may: "manage_keys" },
  { href: "/keys", word: "Keys", group: "Settings", may: "manage_keys" },
  { href: "/issuers", word: "Issuers", group: "Settings", may: "manage_keys" },
  { href: "/sessions", word: "Sessions", group: "Settings" },
  { href: "/archive", word: "Archive", group: "Settings" },
  { href: "/audit", word: "Audit", group: "Settings", may: "read_audit" },
  { href: "/tenants", word: "Tenants", group: "Settings", may: "manage_tenants" },
];

const HOME_IN_SCOPE = "/jobs";
const isOpen = (place) => (!place.may || may(place.may)) && (!isScoped() || place.inScope);

function found(path) {
  for (const [pattern, page, title, inScope] of PAGES) {
    const match = pattern.exec(path);
    if (match) return isScoped() && !inScope ? { page: OutOfScope, title } : { page, title, id: match[1] };
  }
  return { page: Nowhere, title: "Page not found" };
}

const Nowhere = () => html`<h1 tabindex="-1">Page not found</h1><${Empty} title="This page does not exist.">Choose one from the menu.</${Empty}>`;

const OutOfScope = () => html`<h1 tabindex="-1">Not for this login</h1>
  <div class="card"><${Empty} title=${`This login sees jobs of ${scopeWords()} only.`}>This page is about the whole tenant. <a href=${HOME_IN_SCOPE}>Open the jobs</a></${Empty}></div>`;

/** A link to a tenant that does not exist, or that the key cannot open, leads to the key's own one. */
function Elsewhere({ error }) {
  if (!namedTenant() || ![403, 404].includes(error.status)) return html`<${Wrong} error=${error} />`;
  const why = error.status === 404 ? "which does not exist" : "which this login cannot open";
  return html`<p class="trouble-line" role="alert">This link shows the tenant ${namedTenant()}, ${why}.</p>
    <p><a href="${location.origin}/" target="_self">Open your own tenant</a></p>`;
}

function App() {
  const address = useAddress();
  useZone();
  const [me, setMe] = useState(null);
  const [state, setState] = useState("asking");
  const [error, setError] = useState(null);

  const start = async () => {
    try {
      setMe(await whoAmI());
      setState("in");
      openStream();
    } catch (problem) {
      if (problem.status === 401) setState("out");
      else setError(problem);
    }
  };
  useEffect(() => {
    start();
    return onSessionOver(() => {
      closeStream();
      setState((was) => (was === "in" || was === "over" ? "over" : "out"));
    });
  }, []);

  useEffect(() => {
    if (state === "in" && isScoped() && address.path === "/") go(HOME_IN_SCOPE, { replace: true });
  }, [address.path, state]);
  const { page: Page, title, id } = found(address.path);
  useEffect(() => {
    document.title = `${title} – duetime`;
    window.scrollTo(0, 0);
    const head = document.querySelector("main h1");
    if (head && state === "in") head.focus({ preventScroll: true });
  }, [address.path, state]);

  if (state === "out" || state === "over") return html`<${Login} over=${state === "over"} onDone=${start} />`;
  if (error) return html`<main><h1>duetime</h1><${Elsewhere} error=${error} /></main>`;
  if (!me) return html`<main aria-busy="true"><h1 class="hidden-words">duetime</h1></main>`;
  const places = PLACES.filter(isOpen);
  return html`<${Frame} me=${me} path=${address.path} places=${places}>
      <div key=${address.path} class="fade"><${Page} id=${id} query=${address.query} /></div>
    </${Frame}>
    <${Notes} />
    <${Asking} />
    <${Shortcuts} places=${places} />`;
}

document.addEventListener("click", (event) => {
  const link = event.target.closest && event.target.closest("a[href]");
  if (!link || link.target || event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const url = new URL(link.href);
  if (url.origin !== location.origin || url.hash || !isSameTenant(url) || !PAGES.some(([pattern]) => pattern.test(url.pathname))) return;
  event.preventDefault();
  go(url.pathname + url.search);
});

useTheme();
render(html`<${App} />`, document.body);
