// Keyboard shortcuts: / searches, Ctrl-K opens any page or job, ? lists them.

import { go } from "../core/data.js";
import { address } from "../core/http.js";
import { listPage } from "../core/pages.js";
import { html, useEffect, useLayoutEffect, useState } from "../core/view.js";
import { Dialog } from "./dialog.js";
import { nameOf } from "./job_actions.js";

const KEYS = [
  ["/", "Search on this page, or in all jobs"],
  ["Ctrl K", "Open a page, job or run"],
  ["?", "Show these shortcuts"],
  ["Esc", "Close"],
];

const isTyping = (target) => target.isContentEditable || ["INPUT", "SELECT", "TEXTAREA"].includes(target.tagName);

function search() {
  const field = document.querySelector("main input[type=search]");
  if (field) field.focus();
  else go("/jobs");
}

export function Shortcuts({ places }) {
  const [open, setOpen] = useState(null);
  // Not after the page is painted: what is pressed before would be lost.
  useLayoutEffect(() => {
    const show = (what) => setOpen((before) => ({ what, count: before ? before.count + 1 : 0 }));
    const pressed = (event) => {
      const jump = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey);
      if (!jump && (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target))) return;
      if (document.querySelector("dialog[open]")) return;
      if (jump) show("jump");
      else if (event.key === "?") show("keys");
      else if (event.key === "/") search();
      else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
  const close = () => setOpen(null);
  if (!open) return null;
  return open.what === "keys"
    ? html`<${Keys} key=${open.count} close=${close} />`
    : html`<${Jump} key=${open.count} places=${places} close=${close} />`;
}

const Keys = ({ close }) => html`<${Dialog} aria-label="Keyboard shortcuts" close=${close}>
  <h2>Keyboard shortcuts</h2>
  <dl class="facts">${KEYS.map(([key, word]) => html`<dt key=${key}><kbd>${key}</kbd></dt><dd>${word}</dd>`)}</dl>
  <form method="dialog" class="buttons"><button>Close</button></form>
</${Dialog}>`;

const STATES = {
  searching: "Searching…",
  done: "Nothing found. Enter searches all jobs.",
  more: "Nothing found so far. Enter searches further.",
  failed: "The search failed. Enter searches all jobs.",
};

function Jump({ places, close }) {
  const [text, setText] = useState("");
  const [jobs, setJobs] = useState([]);
  const [state, setState] = useState("done");
  useEffect(() => {
    setJobs([]);
    setState("done");
    if (text.trim().length < 2) return undefined;
    const stop = new AbortController();
    setState("searching");
    const show = (found, now) => {
      if (stop.signal.aborted) return;
      setJobs([...found.items]);
      setState(now);
    };
    const timer = setTimeout(async () => {
      try {
        const found = await listPage("/v1/jobs", { search: text.trim(), page_size: 8 }, stop.signal, (far) => show(far, "searching"));
        show(found, found.next_cursor ? "more" : "done");
      } catch {
        show({ items: [] }, "failed");
      }
    }, 150);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [text]);
  const wanted = text.trim().toLowerCase();
  const found = [
    ...(/^run_[0-9a-z]{26}$/.test(wanted) ? [{ href: `/runs/${wanted}`, word: wanted, kind: "Run" }] : []),
    ...(/^job_[0-9a-z]{26}$/.test(wanted) ? [{ href: `/jobs/${wanted}`, word: wanted, kind: "Job" }] : []),
    ...places.filter((place) => place.word.toLowerCase().includes(wanted)).map((place) => ({ ...place, kind: "Page" })),
    ...jobs.map((job) => ({ href: `/jobs/${job.job_id}`, word: nameOf(job), kind: job.recurring ? "Schedule" : "Job" })),
  ];
  const submit = (event) => {
    event.preventDefault();
    close();
    go(found.length ? found[0].href : address("/jobs", { search: text.trim() }));
  };
  return html`<${Dialog} aria-label="Open a page, job or run" close=${close}>
    <form class="jump" role="search" onSubmit=${submit}>
      <input type="search" aria-label="Open a page, job or run" placeholder="Page, job or id" autofocus value=${text} onInput=${(event) => setText(event.target.value)} />
      <ul>${found.slice(0, 12).map((each) => html`<li key=${each.href}><a href=${each.href} onClick=${close}>${each.word} <span class="soft small">${each.kind}</span></a></li>`)}</ul>
      ${!found.length && html`<p class="soft" role="status">${STATES[state]}</p>`}
    </form>
  </${Dialog}>`;
}
