// The view library, imported in one place, so that untrusted text is escaped everywhere.

import { html as build } from "../vendor/preact.js";
import { inTenant } from "./place.js";

export { render, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact.js";

// As in text/visible.py. Line breaks and tabs stay.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/g;
const SPOKEN = ["title", "aria-label", "alt", "placeholder"];

const escaped = (found) => {
  const code = found.codePointAt(0).toString(16);
  return code.length <= 2 ? `\\x${code.padStart(2, "0")}` : code.length <= 4 ? `\\u${code.padStart(4, "0")}` : `\\U${code.padStart(8, "0")}`;
};

/** Shows invisible characters, and those that change the direction of text, as escapes. */
export const visible = (text) => text.replace(HIDDEN, escaped);

function shown(node) {
  if (typeof node === "string") return visible(node);
  if (Array.isArray(node)) return node.map(shown);
  if (!node || !node.props) return node;
  // A component's properties are escaped where the component renders them.
  if (typeof node.type === "string") {
    for (const name of SPOKEN) if (typeof node.props[name] === "string") node.props[name] = visible(node.props[name]);
    // A parent shows its children again: the tenant is added once.
    if (node.type === "a" && node.props.href && !node.isPlaced) {
      node.props.href = inTenant(node.props.href);
      node.isPlaced = true;
    }
    if ("children" in node.props) node.props.children = shown(node.props.children);
  }
  return node;
}

export const html = (...given) => shown(build(...given));
