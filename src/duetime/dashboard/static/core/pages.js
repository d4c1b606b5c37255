// Lists: a page may come back short while there is more, so a few are taken together.

import { get } from "./http.js";

const TRIES = 6;

export async function listPage(path, query, signal) {
  const items = [];
  let cursor = query.cursor;
  for (let tries = 0; tries < TRIES; tries++) {
    const page = await get(path, { ...query, cursor }, signal);
    items.push(...page.items);
    cursor = page.next_cursor;
    if (!cursor || items.length >= (query.page_size || 50) / 2) break;
  }
  return { items, next_cursor: cursor };
}
