// JSON without loss: a number that a script cannot represent, such as an integer above 2^53, stays the text that it is in
// the document. JSON.stringify writes that text again. It is needed for what is shown and sent back: arguments, results and
// targets. Everything else of an answer has ordinary numbers, which can be compared and formatted.
//
// Browsers know such texts since Chrome 114, Firefox 135 and Safari 18.4; older ones round the number.

const CONTENT = new Set(["args", "result", "target"]);
const SCHEMA = "arguments";

const isExact = (value) => Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value));
const keeps = "rawJSON" in JSON;

/** Whether a value is such a text. */
export const isNumberText = (value) => keeps && JSON.isRawJSON(value);

/** A document that a user wrote. */
export const readJson = (text) => parsed(text, () => {});

/** An answer of the API. */
export function readAnswer(text) {
  let isPlain = true;
  const answer = parsed(text, () => (isPlain = false));
  return isPlain ? answer : rounded(answer);
}

function parsed(text, onText) {
  if (!keeps) return JSON.parse(text);
  return JSON.parse(text, (_, value, context) => {
    if (typeof value !== "number" || isExact(value)) return value;
    onText();
    return JSON.rawJSON(context.source);
  });
}

/** With ordinary numbers outside of content. The schema of arguments may have arguments of those names. */
function rounded(value, inSchema = false) {
  if (isNumberText(value)) return Number(value.rawJSON);
  if (value === null || typeof value !== "object") return value;
  for (const [name, each] of Object.entries(value)) {
    if (inSchema || !CONTENT.has(name)) value[name] = rounded(each, inSchema || name === SCHEMA);
  }
  return value;
}
