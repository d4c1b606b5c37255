// What makes an action happen once, however often it is clicked while its outcome is unknown: its idempotency key.
//
// An action is a POST with its body. It has a new key, unless an earlier request for the same action got no answer: then
// that one may have been carried out, and the same key lets the server recognize the second. Any answer ends a key, and so
// does an answer to another action on the same object: pausing again after a resume is a new action.

import { now } from "./words.js";

const REMEMBERED = 120000;
const SUBMISSIONS = ["/v1/jobs"];
const open = new Map();

const bytes = (count) => [...crypto.getRandomValues(new Uint8Array(count))].map((each) => each.toString(16).padStart(2, "0")).join("");

/** A UUIDv7 at the server's time: stream queues take submissions with such a nonce, but none with a key. */
function nonce() {
  const at = Math.floor(now()).toString(16).padStart(12, "0");
  const random = bytes(10);
  return `${at.slice(0, 8)}-${at.slice(8)}-7${random.slice(0, 3)}-8${random.slice(3, 6)}-${random.slice(6, 18)}`;
}

const parent = (path) => path.slice(0, path.lastIndexOf("/"));
const isQuestion = (path) => path === "/login" || path.endsWith("/preview");

/** The headers of an action, and what to call with the status and the code of its answer. */
export function once(path, body, tenant) {
  if (isQuestion(path) || (body && body.idempotency_key)) return { headers: {}, answered: () => {} };
  const action = JSON.stringify([tenant || "", path, body]);
  const known = open.get(action);
  const isSubmission = SUBMISSIONS.includes(path);
  const entry = known && known.until > now() ? known : { path, key: isSubmission ? nonce() : bytes(16), until: now() + REMEMBERED };
  open.set(action, entry);
  const answered = (status, code) => {
    // Whether a failing server has carried it out is not known.
    if (!status || status >= 500 || code === "idempotency_key_in_flight") return;
    if (open.get(action) === entry) open.delete(action);
    open.forEach((each, other) => each.path !== path && parent(each.path) === parent(path) && open.delete(other));
  };
  return { headers: { [isSubmission ? "Duetime-Nonce" : "Idempotency-Key"]: entry.key }, answered };
}
