// Requests to the API. The session is a cookie that scripts cannot read. The server accepts a changing request only from
// this page's own origin, which the browser confirms.

import { readAnswer } from "./json.js";
import { namedTenant } from "./place.js";
import { once } from "./repeats.js";

export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || document.title || `The server answered ${status}`);
    this.name = "Problem";
    this.status = status;
    this.code = document.code || "";
    this.field = document.field || null;
    this.remedy = document.remedy || null;
  }
}

const whenOver = new Set();

export function onSessionOver(callback) {
  whenOver.add(callback);
  return () => whenOver.delete(callback);
}

export function sessionIsOver() {
  whenOver.forEach((callback) => callback());
}

export function headersFor(more = {}) {
  const name = namedTenant();
  return name ? { "Duetime-Tenant": name, ...more } : more;
}

export async function ask(method, path, { query, body, headers, signal } = {}) {
  const { headers: key, answered } = method === "POST" ? once(path, body, namedTenant()) : { headers: {}, answered: () => {} };
  const answer = await reach(method, address(path, query), {
    method,
    signal,
    cache: "no-store",
    headers: headersFor({ ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...key, ...headers }),
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (answer.ok) {
    const found = await whole(answer, method);
    answered(answer.status);
    return found;
  }
  const problem = new Problem(answer.status, await answer.json().catch(() => ({})));
  answered(problem.status, problem.code);
  if (problem.status === 401 && path !== "/login") sessionIsOver();
  throw problem;
}

const RETRIES = "The page retries automatically.";
/** The request may have arrived: its key lets the server recognize it when it is sent again. */
const REPEAT = "Try again: if it was done already, it is not done twice.";

async function reach(method, url, request) {
  try {
    return await fetch(url, request);
  } catch (error) {
    throw cut(error, method);
  }
}

/** The content of an answer, which may be cut while it is read. */
async function whole(answer, method) {
  try {
    return readAnswer(await answer.text());
  } catch (error) {
    throw cut(error, method);
  }
}

function cut(error, method) {
  if (error.name === "AbortError") return error;
  return new Problem(0, { detail: "The server cannot be reached", remedy: method === "GET" ? RETRIES : REPEAT });
}

export function address(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

export const get = (path, query, signal) => ask("GET", path, { query, signal });
export const post = (path, body = {}) => ask("POST", path, { body });
