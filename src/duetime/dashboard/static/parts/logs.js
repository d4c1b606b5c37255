// The log of an attempt: searched, expanded, copied, and followed while it grows.

import { say } from "../core/doing.js";
import { html, useEffect, useRef, useState, visible } from "../core/view.js";
import { clockSeconds, number, plural } from "../core/words.js";

const LOUD = ["warning", "error", "critical"];
const levelOf = (line) => String(line.level || "info").toLowerCase();
const textOf = (line) => visible(String(line.text));

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Over plain HTTP, browsers offer no clipboard: select and copy.
    const field = Object.assign(document.createElement("textarea"), { value: text, readOnly: true });
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
}

export function Logs({ lines, label, live = false }) {
  const [wanted, setWanted] = useState("");
  const [wide, setWide] = useState(false);
  const [follows, setFollows] = useState(live);
  const list = useRef(null);
  const found = wanted ? lines.filter((line) => textOf(line).toLowerCase().includes(wanted.toLowerCase())) : lines;
  useEffect(() => {
    if (live && follows && list.current) list.current.scrollTop = list.current.scrollHeight;
  }, [found.length, follows, wide]);
  const take = async () => {
    await copy(found.map((line) => `${line.at || ""} ${levelOf(line)} ${textOf(line)}`).join("\n"));
    say(`Copied ${plural(found.length, "line")}`);
  };
  return html`<div class="log">
    <div class="log-tools">
      <input type="search" aria-label=${`Search in ${label}`} placeholder="Search in the log" value=${wanted} onInput=${(event) => setWanted(event.target.value)} />
      <span class="soft small" role="status">${wanted ? `${number(found.length)} of ${number(lines.length)} lines` : plural(lines.length, "line")}</span>
      ${live && html`<button class="tight" type="button" aria-pressed=${String(follows)} onClick=${() => setFollows(!follows)}>Follow</button>`}
      <button class="tight" type="button" aria-pressed=${String(wide)} onClick=${() => setWide(!wide)}>Expand</button>
      <button class="tight" type="button" onClick=${take}>Copy</button>
    </div>
    <ol class="logs ${wide ? "wide" : ""}" ref=${list} tabindex="0" aria-label=${label}>
      ${found.map((line, place) => html`<li key=${place} class=${LOUD.includes(levelOf(line)) ? levelOf(line) : ""}>
        <span class="soft">${line.at ? clockSeconds(line.at) : ""}</span><span class="level">${levelOf(line)}</span><span class="said">${textOf(line)}</span>
      </li>`)}
    </ol>
  </div>`;
}
