// The arguments of a task as fields, made from the JSON schema that its workers declare. The form's own value is the
// JSON text: a field reads its part of it, and writes it back. What has no simpler form is a JSON value in a field.

import { html, useState } from "../core/view.js";

const EXAMPLES = { "date-time": "2027-01-31T09:00:00Z", time: "09:00:00", duration: "PT1H30M", uuid: "0b1c2d3e-…", decimal: "9.90" };

/** The properties of a schema, or null if it has none. */
export function propertiesOf(schema) {
  const root = schema && resolved(schema, schema);
  if (!root || root.type !== "object" || !root.properties || !Object.keys(root.properties).length) return null;
  const required = root.required || [];
  return Object.entries(root.properties).map(([name, part]) => ({
    name,
    isRequired: required.includes(name),
    ...kindOf(part, schema),
  }));
}

/** Whether arguments can be shown as these fields. */
export function fits(text, properties) {
  const args = parsed(text);
  return Boolean(args) && Object.keys(args).every((name) => properties.some((each) => each.name === name));
}

export function ArgumentFields({ properties, text, change, isWrong }) {
  const [args, setArgs] = useState(() => parsed(text));
  const set = (name, value) => {
    const next = Object.fromEntries(
      properties
        .map((each) => [each.name, each.name === name ? value : args[each.name]])
        .filter(([, each]) => each !== undefined),
    );
    setArgs(next);
    change(JSON.stringify(next, null, 2));
  };
  return html`<div class="pair">
    ${properties.map((each) => html`<${ArgumentField} key=${each.name} property=${each} value=${args[each.name]} set=${set} isWrong=${isWrong(each.name)} />`)}
  </div>`;
}

function ArgumentField({ property, value, set, isWrong }) {
  const { name, type, schema, isRequired } = property;
  const [text, setText] = useState(() => shown(property, value));
  const input = (event) => {
    const field = event.target;
    setText(field.value);
    try {
      field.setCustomValidity("");
      set(name, read(property, field.value));
    } catch (error) {
      field.setCustomValidity(error.message);
    }
  };
  const usual = schema.default === undefined || isRequired ? "" : `default: ${JSON.stringify(schema.default)}`;
  const hint = [schema.description, hintOf(property)].filter(Boolean).join(" · ");
  const field = {
    id: `args.${name}`,
    value: text,
    onInput: input,
    required: isRequired,
    autocomplete: "off",
    spellcheck: false,
    placeholder: usual || EXAMPLES[schema.format] || "",
    "aria-invalid": isWrong ? "true" : null,
    "aria-describedby": isWrong ? "form-error" : hint ? `args.${name}-about` : null,
  };
  const choices = type === "boolean" ? [true, false] : schema.enum;
  const control = choices
    ? html`<select ...${field} onInput=${null} onChange=${input}>
        <option value="">${usual || (isRequired ? "choose" : "default")}</option>
        ${choices.map((each) => html`<option key=${each} value=${JSON.stringify(each)}>${String(each)}</option>`)}
      </select>`
    : type === "integer" || type === "number"
      ? html`<input ...${field} type="number" step=${type === "integer" ? 1 : "any"} min=${schema.minimum} max=${schema.maximum} />`
      : type === "string"
        ? html`<input ...${field} type=${schema.format === "date" ? "date" : "text"} maxlength=${schema.maxLength} />`
        : html`<textarea ...${field} rows="3"></textarea>`;
  return html`<div>
    <label><span>${name}</span>${control}</label>
    ${hint && html`<p class="hint" id=${`args.${name}-about`}>${hint}</p>`}
  </div>`;
}

const hintOf = ({ type, schema }) =>
  type === "json" ? "JSON" : schema.contentEncoding === "base64" ? "base64" : schema.format && schema.format !== "date" ? schema.format : "";

/** The value of a field from its text; undefined if it is not given. */
function read({ type, schema }, text) {
  if (text.trim() === "") return undefined;
  if (type === "string" && !schema.enum) return text;
  if (type === "integer" && !Number.isSafeInteger(Number(text))) throw new Error("too large for a form: use JSON");
  if (type === "integer" || type === "number") return schema.enum ? JSON.parse(text) : Number(text);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`is not JSON: ${error.message}`);
  }
}

function shown({ type, schema }, value) {
  if (value === undefined || (value === null && type !== "json")) return "";
  const isPlain = type === "string" && !schema.enum && typeof value === "string";
  return isPlain ? value : JSON.stringify(value);
}

/** The kind of field for a schema: a simple type, or "json". None counts as not given. */
function kindOf(part, root) {
  const schema = resolved(part, root);
  const forms = (schema.anyOf || schema.oneOf || [schema]).map((form) => resolved(form, root)).filter((form) => form.type !== "null");
  const found = forms.length === 1 ? { ...schema, ...forms[0], default: schema.default } : schema;
  const type = found.enum && found.enum.every((each) => each !== null) ? "string" : found.type;
  const isSimple = ["string", "integer", "number", "boolean"].includes(type) && forms.length === 1;
  return { type: isSimple ? type : "json", schema: found };
}

function resolved(schema, root) {
  let found = schema;
  for (let step = 0; found && found.$ref && step < 20; step += 1) {
    found = (root.$defs || {})[found.$ref.slice("#/$defs/".length).replaceAll("~1", "/").replaceAll("~0", "~")];
  }
  return found || {};
}

function parsed(text) {
  try {
    const found = JSON.parse(text || "{}");
    return found && typeof found === "object" && !Array.isArray(found) ? found : null;
  } catch {
    return null;
  }
}
