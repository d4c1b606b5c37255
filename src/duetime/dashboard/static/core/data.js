// Shared by pages: data that stays fresh, the clock, the address.

import { listen } from "./live.js";
import { go, onMove, queryHere, setQuery } from "./place.js";
import { useEffect, useRef, useState } from "./view.js";
import { now } from "./words.js";

const AFTER_NEWS = 1000;
const UNREACHED = 3000;

/**
 * Load data, and load it again on matching events (`live`) or after some time (`every`). Old data stays until the next
 * response; a late response is dropped. At most one request runs at a time.
 */
export function useData(load, about, { live = null, every = 0 } = {}) {
  const [state, setState] = useState({ about: null, data: undefined, error: null });
  const again = useRef(() => {});
  const key = JSON.stringify(about);
  useEffect(() => {
    const stop = new AbortController();
    let busy = false;
    let wanted = false;
    let timer = null;
    const run = async () => {
      timer = null;
      if (busy) {
        wanted = true;
        return;
      }
      busy = true;
      let isUnreached = false;
      try {
        const data = await load(stop.signal);
        if (!stop.signal.aborted) setState({ about: key, data, error: null });
      } catch (error) {
        isUnreached = error.status === 0;
        if (!stop.signal.aborted) {
          setState((was) => ({ about: key, data: was.about === key ? was.data : undefined, error }));
        }
      }
      busy = false;
      if (isUnreached && !wanted && !stop.signal.aborted) timer = setTimeout(run, UNREACHED);
      if (wanted && !stop.signal.aborted) {
        wanted = false;
        timer = setTimeout(run, AFTER_NEWS);
      }
    };
    run();
    again.current = run;
    const leave = live ? listen((news) => live(news) && !timer && run()) : () => {};
    const ticking = every ? setInterval(() => document.hidden || run(), every) : null;
    return () => {
      stop.abort();
      leave();
      clearInterval(ticking);
      clearTimeout(timer);
    };
  }, [key, every]);
  const mine = state.about === key;
  return { data: mine ? state.data : undefined, error: mine ? state.error : null, reload: () => again.current() };
}

const ticking = new Set();
setInterval(() => document.hidden || ticking.forEach((callback) => callback()), 1000);

/** The server's time, updated each second. */
export function useNow() {
  const [at, setAt] = useState(now);
  useEffect(() => {
    const tick = () => setAt(now());
    ticking.add(tick);
    return () => ticking.delete(tick);
  }, []);
  return at;
}

export { go, setQuery };

export function useAddress() {
  const read = () => ({ path: location.pathname, query: queryHere() });
  const [found, setFound] = useState(read);
  useEffect(() => onMove(() => setFound(read())), []);
  return found;
}
