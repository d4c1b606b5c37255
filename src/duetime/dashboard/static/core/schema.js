// A JSON schema as kinds of fields. A form has one `kind`:
//   string, integer, number, boolean   one input
//   scalar                             text or a number in one input
//   choice                             one of some values
//   object, list, variants             fields of their own
//   json                               everything else, as JSON text

const SIMPLE = ["string", "integer", "number", "boolean"];

function resolved(schema, root) {
  let found = schema;
  for (let step = 0; found && found.$ref && step < 20; step += 1) {
    const name = found.$ref.split("/").pop().replaceAll("~1", "/").replaceAll("~0", "~");
    const { $ref, ...beside } = found;
    found = { ...(root.$defs || {})[name], ...beside };
  }
  return found || {};
}

const choicesOf = (schema) => (schema.const === undefined ? schema.enum : [schema.const]);

/** The alternatives of a union, also of unions in it. */
const flat = (union, root) =>
  union.flatMap((each) => {
    const part = resolved(each, root);
    const inner = part.anyOf || part.oneOf;
    if (!inner) return [part];
    const about = clean({ description: part.description, examples: part.examples });
    return flat(inner, root).map((form) => (form.type === "null" ? form : { ...about, ...form }));
  });

/** The form of a part of a schema. `root` has the definitions. */
export function formOf(part, root) {
  const schema = resolved(part, root);
  const union = schema.anyOf || schema.oneOf;
  if (!union) return single(schema, root);
  const given = flat(union, root);
  const parts = given.filter((each) => each.type !== "null");
  const beside = { description: schema.description, default: schema.default };
  const isNullable = parts.length < given.length;
  if (parts.length === 1) return { ...single({ ...parts[0], ...clean(beside) }, root), isNullable };
  const types = new Set(parts.map((each) => (choicesOf(each) ? "" : each.type)));
  if ([...types].every((type) => ["string", "integer", "number"].includes(type))) {
    return { kind: "scalar", schema: { ...parts.find((each) => each.description), ...clean(beside) }, isNullable };
  }
  const choices = parts.flatMap((each) => choicesOf(each) || [undefined]);
  if (!choices.includes(undefined)) return { kind: "choice", schema: { ...clean(beside), enum: choices }, isNullable };
  return { kind: "variants", schema: clean(beside), variants: parts.map((each) => named(single(each, root))), isNullable };
}

const clean = (fields) => Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));

function single(schema, root) {
  const choices = choicesOf(schema);
  if (choices) return { kind: "choice", schema: { ...schema, enum: choices.filter((each) => each !== null) }, isNullable: choices.includes(null) };
  if (SIMPLE.includes(schema.type)) return { kind: schema.type, schema };
  if (schema.type === "object" && schema.properties) return { kind: "object", schema, properties: () => propertiesOf(schema, root) };
  const isList = schema.type === "array" && schema.items && typeof schema.items === "object" && !schema.prefixItems;
  return isList ? { kind: "list", schema, item: () => formOf(schema.items, root) } : { kind: "json", schema };
}

/** A schema may contain itself: its parts are made when they are needed. */
function propertiesOf(schema, root) {
  const required = schema.required || [];
  return Object.entries(schema.properties).map(([name, part]) => ({ name, isRequired: required.includes(name), form: formOf(part, root) }));
}

const constantOf = (form) => (form.kind === "choice" && form.schema.enum.length === 1 && form.schema.default === undefined ? form.schema.enum[0] : undefined);
export const isConstant = ({ form, isRequired }) => isRequired && constantOf(form) !== undefined;

/** What an object contains in any case: the tags by which its kind is known. */
export function constantsOf(form) {
  return Object.fromEntries(form.properties().filter(isConstant).map((each) => [each.name, constantOf(each.form)]));
}

/** A variant with a name for people: its tag, its title or its type. */
function named(form) {
  const tags = form.kind === "object" ? Object.values(constantsOf(form)) : [];
  const kind = { string: "text", boolean: "true or false", list: "list" }[form.kind] || form.kind;
  return { ...form, word: String(tags[0] ?? form.schema.title ?? kind) };
}

/** Whether a value can be shown and kept by the fields of a form. */
export function fits(value, form) {
  if (value === undefined || value === null) return true;
  switch (form.kind) {
    case "json":
      return true;
    case "choice":
      return form.schema.enum.includes(value);
    case "scalar":
      return ["string", "number"].includes(typeof value);
    case "integer":
    case "number":
      return typeof value === "number" && (form.kind === "number" || Number.isSafeInteger(value));
    case "list":
      return Array.isArray(value) && value.every((each) => fits(each, form.item()));
    case "variants":
      return form.variants.some((each) => fits(value, each));
    case "object": {
      if (typeof value !== "object" || Array.isArray(value)) return false;
      const properties = new Map(form.properties().map((each) => [each.name, each]));
      const isTagged = Object.entries(constantsOf(form)).every(([name, tag]) => value[name] === undefined || value[name] === tag);
      return isTagged && Object.entries(value).every(([name, each]) => properties.has(name) && fits(each, properties.get(name).form));
    }
    default:
      return typeof value === form.kind;
  }
}
