// Lists: the server may return a short page although there is more, so several requests fill one page. A page without
// items is read on, with what was searched so far, until the end or for READ_ON; nothing matches only at the end.

import { useData } from "./data.js";
import { get } from "./http.js";
import { useRef, useState } from "./view.js";

const TRIES = 6;
const READ_ON = 10000;

/** `step` gets the page so far after each request. */
export async function listPage(path, query, signal, step = () => {}) {
  const items = [];
  let cursor = query.cursor;
  const began = performance.now();
  for (let tries = 1; ; tries++) {
    const page = await get(path, { ...query, cursor }, signal);
    items.push(...page.items);
    cursor = page.next_cursor;
    const found = { items, next_cursor: cursor, searched_to: page.searched_to, in_streams: page.in_streams, tries };
    if (!cursor || items.length >= (query.page_size || 50) / 2) return found;
    if (items.length ? tries >= TRIES : performance.now() - began > READ_ON) return found;
    step(found);
  }
}

/** A page of a list as by useData, and `searching`: the page so far while none of its items is found. What took many
 * requests is not read again on each event. */
export function useList(path, query, about, options = {}) {
  const [searching, setSearching] = useState(null);
  const isLong = useRef(false);
  const load = async (signal) => {
    try {
      const page = await listPage(path, query, signal, (found) => !signal.aborted && setSearching(found.items.length ? null : found));
      isLong.current = page.tries > TRIES;
      return page;
    } finally {
      if (!signal.aborted) setSearching(null);
    }
  };
  const { live } = options;
  const found = useData(load, about, { ...options, live: live && ((news) => !isLong.current && live(news)) });
  return { ...found, searching: found.data ? null : searching };
}
