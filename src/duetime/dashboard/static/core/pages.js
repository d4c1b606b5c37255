// Lists: the server may return a short page although there is more, so several requests fill one page.

import { get } from "./http.js";

const TRIES = 6;

export async function listPage(path, query, signal) {
  const items = [];
  let in_streams = [];
  let cursor = query.cursor;
  for (let tries = 0; tries < TRIES; tries++) {
    const page = await get(path, { ...query, cursor }, signal);
    items.push(...page.items);
    cursor = page.next_cursor;
    in_streams = page.in_streams;
    if (!cursor || items.length >= (query.page_size || 50) / 2) break;
  }
  return { items, next_cursor: cursor, in_streams };
}
