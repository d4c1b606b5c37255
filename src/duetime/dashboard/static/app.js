// The routes. Links are ordinary links; links to the dashboard's own pages are followed without a reload.

import { go, useAddress } from "./core/data.js";
import { onSessionOver } from "./core/http.js";
import { closeStream, openStream } from "./core/live.js";
import { may, whoAmI } from "./core/session.js";
import { useTheme } from "./core/theme.js";
import { html, render, useEffect, useState } from "./core/view.js";
import { Access } from "./pages/access.js";
import { Audit } from "./pages/audit.js";
import { Breakers } from "./pages/breakers.js";
import { BulkActionsPage } from "./pages/bulk_actions.js";
import { Calendar } from "./pages/calendar.js";
import { DeadLetters } from "./pages/dead_letters.js";
import { Graph, Graphs } from "./pages/graphs.js";
import { Job } from "./pages/job.js";
import { EditJob, NewJob } from "./pages/job_form.js";
import { Jobs, Schedules } from "./pages/jobs.js";
import { Login } from "./pages/login.js";
import { Now } from "./pages/now.js";
import { Queues } from "./pages/queues.js";
import { Run } from "./pages/run.js";
import { Runs } from "./pages/runs.js";
import { Sessions } from "./pages/sessions.js";
import { TrendsPage } from "./pages/trends.js";
import { Workers } from "./pages/workers.js";
import { Asking } from "./parts/asking.js";
import { Shortcuts } from "./parts/shortcuts.js";
import { Empty, Wrong } from "./parts/basics.js";
import { Frame } from "./parts/frame.js";
import { Notes } from "./parts/notes.js";

const PAGES = [
  [/^\/$/, Now, "Now"],
  [/^\/trends$/, TrendsPage, "Trends"],
  [/^\/jobs$/, Jobs, "Jobs"],
  [/^\/jobs\/new$/, NewJob, "New job"],
  [/^\/jobs\/([^/]+)\/edit$/, EditJob, "Edit job"],
  [/^\/jobs\/([^/]+)$/, Job, "Job"],
  [/^\/schedules$/, Schedules, "Schedules"],
  [/^\/runs$/, Runs, "Runs"],
  [/^\/runs\/([^/]+)$/, Run, "Run"],
  [/^\/graphs$/, Graphs, "Graphs"],
  [/^\/graphs\/([^/]+)$/, Graph, "Graph"],
  [/^\/calendar$/, Calendar, "Calendar"],
  [/^\/dead-letters$/, DeadLetters, "Dead letters"],
  [/^\/bulk-actions$/, BulkActionsPage, "Bulk actions"],
  [/^\/queues$/, Queues, "Queues"],
  [/^\/workers$/, Workers, "Workers"],
  [/^\/breakers$/, Breakers, "Breakers"],
  [/^\/access$/, Access, "Tenants and keys"],
  [/^\/sessions$/, Sessions, "Sessions"],
  [/^\/audit$/, Audit, "Audit"],
];

const PLACES = [
  { href: "/", word: "Now" },
  { href: "/trends", word: "Trends" },
  { href: "/schedules", word: "Schedules" },
  { href: "/jobs", word: "Jobs" },
  { href: "/runs", word: "Runs" },
  { href: "/graphs", word: "Graphs" },
  { href: "/calendar", word: "Calendar" },
  { href: "/dead-letters", word: "Dead letters" },
  { href: "/bulk-actions", word: "Bulk actions" },
  { href: "/queues", word: "Queues", line: true },
  { href: "/workers", word: "Workers" },
  { href: "/breakers", word: "Breakers" },
  { href: "/sessions", word: "Sessions", line: true },
  { href: "/access", word: "Tenants and keys", may: "manage_keys" },
  { href: "/audit", word: "Audit", may: "read_audit" },
];

function found(path) {
  for (const [pattern, page, title] of PAGES) {
    const match = pattern.exec(path);
    if (match) return { page, title, id: match[1] };
  }
  return { page: Nowhere, title: "Page not found" };
}

const Nowhere = () => html`<h1 tabindex="-1">Page not found</h1><${Empty} title="This page does not exist.">Choose one from the menu.</${Empty}>`;

function App() {
  const address = useAddress();
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

  const { page: Page, title, id } = found(address.path);
  useEffect(() => {
    document.title = `${title} – duetime`;
    window.scrollTo(0, 0);
    const head = document.querySelector("main h1");
    if (head && state === "in") head.focus({ preventScroll: true });
  }, [address.path, state]);

  if (state === "out" || state === "over") return html`<${Login} over=${state === "over"} onDone=${start} />`;
  if (error) return html`<main><h1>duetime</h1><${Wrong} error=${error} /></main>`;
  if (!me) return html`<main aria-busy="true"><h1 class="hidden-words">duetime</h1></main>`;
  return html`<${Frame} me=${me} path=${address.path} places=${PLACES}>
      <div key=${address.path} class="fade"><${Page} id=${id} query=${address.query} /></div>
    </${Frame}>
    <${Notes} />
    <${Asking} />
    <${Shortcuts} places=${PLACES.filter((place) => !place.may || may(place.may))} />`;
}

document.addEventListener("click", (event) => {
  const link = event.target.closest && event.target.closest("a[href]");
  if (!link || link.target || event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const url = new URL(link.href);
  if (url.origin !== location.origin || url.hash || !PAGES.some(([pattern]) => pattern.test(url.pathname))) return;
  event.preventDefault();
  go(url.pathname + url.search);
});

useTheme();
render(html`<${App} />`, document.body);
