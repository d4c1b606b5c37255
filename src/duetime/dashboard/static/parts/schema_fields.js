// Fields for a value that a JSON schema describes: arguments of tasks, and bodies of requests. `set` gets the whole value
// after each change; undefined means that it is not given. An error of the server is shown at the field that it names.

import { readJson } from "../core/json.js";
import { constantsOf, fits, isConstant } from "../core/schema.js";
import { html, useRef, useState } from "../core/view.js";

const EXAMPLES = { "date-time": "2027-01-31T09:00:00Z", time: "09:00:00", duration: "PT1H30M", uuid: "0b1c2d3e-…", decimal: "9.90" };
const INPUTS = { date: "date", password: "password" };

const labelOf = (name) => name[0].toUpperCase() + name.slice(1).replaceAll("_", " ");
const isBelow = (field, path) => Boolean(field) && (field === path || field.startsWith(`${path}.`) || field.startsWith(`${path}[`));

/** The fields of an object. `plain` shows names as they are, as arguments of a task have them. */
export function SchemaFields({ form, value, set, path = "", error = null, plain = false, hide = [], examples = {} }) {
  const given = value || {};
  const change = (name, part) => {
    const all = { ...constantsOf(form), ...given, [name]: part };
    const names = form.properties().map((each) => each.name);
    set(Object.fromEntries(names.filter((each) => all[each] !== undefined).map((each) => [each, all[each]])));
  };
  const shown = form.properties().filter((each) => !isConstant(each) && !hide.includes(each.name));
  return html`<div class="pair">
    ${shown.map(
      (each) => html`<${SchemaField} key=${each.name} ...${each} label=${plain ? each.name : labelOf(each.name)} value=${given[each.name]}
        set=${(part) => change(each.name, part)} path=${path ? `${path}.${each.name}` : each.name} error=${error} plain=${plain} example=${examples[each.name]} />`,
    )}
  </div>`;
}

function SchemaField(props) {
  const { kind } = props.form;
  if (kind === "object") return html`<${ObjectField} ...${props} />`;
  if (kind === "list") return html`<${ListField} ...${props} />`;
  if (kind === "variants") return html`<${VariantsField} ...${props} />`;
  return html`<${ValueField} ...${props} />`;
}

const Hint = ({ id, words }) => words && html`<p class="hint" id=${id}>${words.split("`").map((part, index) => (index % 2 ? html`<code>${part}</code>` : part))}</p>`;

/** The server's complaint about this field; a leaf shows what is said about anything below it, too. */
function Complaint({ path, error, isLeaf = false }) {
  const isHere = error && (isLeaf ? isBelow(error.field, path) : error.field === path);
  if (!isHere) return null;
  const where = error.field === path ? "" : `${error.field.slice(path.length)}: `;
  return html`<p class="wrong" id=${`${path}-wrong`}>${where}${error.message}${error.remedy ? ` – ${error.remedy}` : ""}</p>`;
}

function ObjectField({ form, label, value, set, path, error, plain, isRequired }) {
  const isGiven = isRequired || (value !== undefined && value !== null);
  return html`<fieldset class="nested">
    <legend>${label}</legend>
    <${Hint} words=${form.schema.description && form.schema.description.split("\n\n")[0]} />
    ${isGiven && html`<${SchemaFields} form=${form} value=${value} set=${set} path=${path} error=${error} plain=${plain} />`}
    ${!isRequired && html`<div><button type="button" class="tight" onClick=${() => set(isGiven ? undefined : constantsOf(form))}>${isGiven ? "Remove" : "Add"}<span class="hidden-words"> ${label}</span></button></div>`}
    <${Complaint} path=${path} error=${error} />
  </fieldset>`;
}

function ListField({ form, label, value, set, path, error, plain, isRequired, example }) {
  const items = value || [];
  // An item keeps its fields when another one is removed.
  const keys = useRef({ next: 0, kept: [] }).current;
  while (keys.kept.length < items.length) keys.kept.push((keys.next += 1));
  keys.kept.length = items.length;
  const item = form.item();
  const empty = item.kind === "object" ? constantsOf(item) : item.kind === "list" ? [] : null;
  const put = (next) => set(next.length || isRequired ? next : undefined);
  const remove = (place) => {
    keys.kept.splice(place, 1);
    put(items.filter((_, at) => at !== place));
  };
  return html`<fieldset class=${item.kind === "object" ? "nested" : "nested list"} id=${path}>
    <legend>${label}</legend>
    <${Hint} words=${form.schema.description} />
    ${items.map(
      (each, place) => html`<div class="item" key=${keys.kept[place]}>
        <${SchemaField} form=${item} label=${`${label} ${place + 1}`} value=${each === null ? undefined : each} isRequired plain=${plain} bare example=${example}
          set=${(part) => put(items.map((was, at) => (at === place ? (part === undefined ? null : part) : was)))} path=${`${path}[${place}]`} error=${error} />
        <button type="button" class="tight" onClick=${() => remove(place)}>Remove<span class="hidden-words"> ${label} ${place + 1}</span></button>
      </div>`,
    )}
    <div><button type="button" class="tight" onClick=${() => put([...items, empty])}>Add<span class="hidden-words"> to ${label}</span></button></div>
    <${Complaint} path=${path} error=${error} />
  </fieldset>`;
}

function VariantsField({ form, label, value, set, path, error, plain, isRequired }) {
  const found = value === undefined || value === null ? -1 : form.variants.findIndex((each) => fits(value, each));
  const [picked, setPicked] = useState(found);
  const pick = (event) => {
    const place = Number(event.target.value);
    setPicked(place);
    const { kind } = form.variants[place] || {};
    set(kind === "object" ? constantsOf(form.variants[place]) : kind === "list" ? [] : undefined);
  };
  const chosen = form.variants[picked];
  return html`<fieldset class="nested">
    <legend>${label}</legend>
    <label><span class="hidden-words">Kind of ${label}</span>
      <select id=${`${path}-kind`} required=${isRequired} onChange=${pick}>
        <option value="">${isRequired ? "choose" : "not given"}</option>
        ${form.variants.map((each, place) => html`<option key=${place} value=${place} selected=${place === picked}>${each.word}</option>`)}
      </select>
    </label>
    <${Hint} words=${(chosen && chosen.schema.description) || form.schema.description} />
    ${chosen && chosen.kind === "object" && html`<${SchemaFields} key=${picked} form=${chosen} value=${value} set=${set} path=${path} error=${error} plain=${plain} />`}
    ${chosen && chosen.kind !== "object" && html`<${SchemaField} key=${picked} form=${chosen} label=${label} value=${value} set=${set} path=${path} error=${error} plain=${plain} isRequired />`}
    <${Complaint} path=${path} error=${error} />
  </fieldset>`;
}

function ValueField({ form, label, value, set, path, error, isRequired, bare = false, example = "" }) {
  const { kind, schema } = form;
  const [text, setText] = useState(() => shown(form, value));
  const input = (event) => {
    const field = event.target;
    setText(field.value);
    try {
      field.setCustomValidity("");
      set(read(form, field.value));
    } catch (problem) {
      field.setCustomValidity(problem.message);
    }
  };
  const isWrong = Boolean(error) && isBelow(error.field, path);
  const usual = schema.default === undefined || schema.default === null || isRequired ? "" : `default: ${JSON.stringify(schema.default)}`;
  const hint = [!bare && schema.description, hintOf(form)].filter(Boolean).join(" · ");
  const field = {
    id: path,
    value: text,
    onInput: input,
    required: isRequired,
    autocomplete: "off",
    spellcheck: false,
    placeholder: String(example || usual || (schema.examples || [])[0] || EXAMPLES[schema.format] || ""),
    "aria-invalid": isWrong ? "true" : null,
    "aria-describedby": isWrong ? `${path}-wrong` : hint ? `${path}-about` : null,
  };
  const choices = kind === "boolean" ? [true, false] : kind === "choice" ? schema.enum : null;
  const control = choices
    ? html`<select ...${field} onInput=${null} onChange=${input}>
        <option value="">${usual || (isRequired ? "choose" : "not given")}</option>
        ${choices.map((each) => html`<option key=${each} value=${JSON.stringify(each)} selected=${JSON.stringify(each) === text}>${String(each)}</option>`)}
      </select>`
    : kind === "integer" || kind === "number"
      ? html`<input ...${field} type="number" step=${kind === "integer" ? 1 : "any"} min=${schema.minimum} max=${schema.maximum} />`
      : kind === "string" || kind === "scalar"
        ? schema.maxLength > 2500
          ? html`<textarea ...${field} rows="3" maxlength=${schema.maxLength}></textarea>`
          : html`<input ...${field} type=${INPUTS[schema.format] || "text"} maxlength=${schema.maxLength} />`
        : html`<textarea ...${field} rows="3"></textarea>`;
  return html`<div>
    <label><span class=${bare ? "hidden-words" : ""}>${label}</span>${control}</label>
    <${Hint} id=${`${path}-about`} words=${hint} />
    <${Complaint} path=${path} error=${error} isLeaf />
  </div>`;
}

const hintOf = ({ kind, schema }) =>
  kind === "json" ? "JSON" : schema.contentEncoding === "base64" ? "base64" : schema.format && !INPUTS[schema.format] ? schema.format : "";

/** The value of a field from its text; undefined if it is not given. */
function read({ kind }, text) {
  if (text.trim() === "") return undefined;
  if (kind === "string") return text;
  if (kind === "scalar") return /^-?[0-9]+([.][0-9]+)?$/.test(text) ? Number(text) : text;
  if (kind === "integer" && !Number.isSafeInteger(Number(text))) throw new Error("too large for a form: use JSON");
  if (kind === "integer" || kind === "number") return Number(text);
  try {
    return readJson(text);
  } catch (problem) {
    throw new Error(`is not JSON: ${problem.message}`);
  }
}

function shown({ kind }, value) {
  if (value === undefined || (value === null && kind !== "json")) return "";
  return (kind === "string" || kind === "scalar") && typeof value !== "object" ? String(value) : JSON.stringify(value);
}
