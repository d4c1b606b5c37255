// A dialog in front of the page.

import { html, useLayoutEffect, useRef } from "../core/view.js";

/**
 * Open as long as it is drawn. `close` is called once the user has closed it, but not by a dialog that another one
 * has replaced: the browser reports a close a moment later, when the next dialog may be open.
 */
export function Dialog({ close, children, ...attributes }) {
  const dialog = useRef(null);
  const drawn = useRef(true);
  useLayoutEffect(() => {
    dialog.current.showModal();
    return () => {
      drawn.current = false;
    };
  }, []);
  return html`<dialog ref=${dialog} onClose=${() => drawn.current && close()} ...${attributes}>${children}</dialog>`;
}

/** Closes the dialog in which something was pressed; the focus returns to where it was. */
export const closeAround = (event) => event.currentTarget.closest("dialog").close();
