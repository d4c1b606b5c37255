// The view library: one place to import it from, and to show text that others wrote.

import { html as build } from "../vendor/preact.js";

export { render, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact.js";

// As in text/visible.py. Line breaks and tabs stay, in what is laid out by them.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/g;
const SPOKEN = ["title", "aria-label", "alt", "placeholder"];

const escaped = (found) => {
  const code = found.codePointAt(0).toString(16);
  return code.length <= 2 ? `\\x${code.padStart(2, "0")}` : code.length <= 4 ? `\\u${code.padStart(4, "0")}` : `\\U${code.padStart(8, "0")}`;
};

/** Characters that turn text around or hide in it, shown as escapes. */
export const visible = (text) => text.replace(HIDDEN, escaped);

function shown(node) {
  if (typeof node === "string") return visible(node);
  if (Array.isArray(node)) return node.map(shown);
  if (!node || !node.props) return node;
  // What a component is given is shown where the component says so.
  if (typeof node.type === "string") {
    for (const name of SPOKEN) if (typeof node.props[name] === "string") node.props[name] = visible(node.props[name]);
    if ("children" in node.props) node.props.children = shown(node.props.children);
  }
  return node;
}

export const html = (...given) => shown(build(...given));
