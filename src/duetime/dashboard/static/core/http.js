// Requests to the API. The session is a cookie that scripts cannot read. The server accepts a changing request only from
// this page's own origin, which the browser confirms.

import { readAnswer } from "./json.js";
import { namedTenant } from "./place.js";

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
  const answer = await reach(method, address(path, query), {
    method,
    signal,
    cache: "no-store",
    headers: headersFor({ ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers }),
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (answer.ok) return readAnswer(await answer.text());
  const problem = new Problem(answer.status, await answer.json().catch(() => ({})));
  if (problem.status === 401 && path !== "/login") sessionIsOver();
  throw problem;
}

const RETRIES = "The page retries automatically.";
/** The request may have arrived. */
const MAY_BE_DONE = "Look whether it was done before you try again.";

async function reach(method, url, request) {
  try {
    return await fetch(url, request);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { detail: "The server cannot be reached", remedy: method === "GET" ? RETRIES : MAY_BE_DONE });
  }
}

export function address(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

export const get = (path, query, signal) => ask("GET", path, { query, signal });
export const post = (path, body = {}) => ask("POST", path, { body });
