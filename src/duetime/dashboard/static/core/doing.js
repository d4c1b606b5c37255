// Actions: each reports its result, and offers Undo where possible.

import { useEffect, useState } from "./view.js";

/** For how long Undo is offered: docs/dashboard.md says it too. */
const SHOWN = 10000;
const watchers = new Set();
let notes = [];
let next = 1;

function changed(found) {
  notes = found;
  watchers.forEach((callback) => callback(notes));
}

export function useNotes() {
  const [found, setFound] = useState(notes);
  useEffect(() => {
    watchers.add(setFound);
    return () => watchers.delete(setFound);
  }, []);
  return found;
}

export const forget = (id) => changed(notes.filter((note) => note.id !== id));

export function say(text, { undo = null, bad = false, remedy = null } = {}) {
  const id = next++;
  changed([...notes.slice(-3), { id, text, undo, bad, remedy }]);
  setTimeout(() => forget(id), bad ? 2 * SHOWN : SHOWN);
  return id;
}

export const complain = (error) => say(error.message, { bad: true, remedy: error.remedy });

/** Run an action, then report it, with Undo if there is a reverse action. */
export async function act(action, done, { undo = null, then = () => {} } = {}) {
  try {
    const answer = await action();
    const back = undo && (() => act(undo, "Undone", { then }));
    say(typeof done === "function" ? done(answer) : done, { undo: back });
    then(answer);
    return answer;
  } catch (error) {
    complain(error);
    return null;
  }
}

/** The same action for many items, a few at a time; `step` gets the progress. */
export async function forEach(items, action, step) {
  const failed = [];
  let done = 0;
  const waiting = [...items];
  const lane = async () => {
    while (waiting.length) {
      const item = waiting.shift();
      try {
        await action(item);
      } catch (error) {
        failed.push({ item, error });
      }
      step(++done, items.length);
    }
  };
  await Promise.all([lane(), lane(), lane(), lane()]);
  return failed;
}
