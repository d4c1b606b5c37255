// The theme: light, dark, or the system's.

const KEPT = "duetime.theme";
const NEXT = { auto: "light", light: "dark", dark: "auto" };

export const theme = () => localStorage.getItem(KEPT) || "auto";

export function useTheme(found = theme()) {
  if (found === "auto") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.dataset.theme = found;
  localStorage.setItem(KEPT, found);
  window.dispatchEvent(new Event("duetime-theme"));
  return found;
}

export const nextTheme = () => useTheme(NEXT[theme()]);

/** A theme colour in a form that a canvas accepts. */
export function colour(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** Call back when the theme changes. */
export function onTheme(callback) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", callback);
  window.addEventListener("duetime-theme", callback);
  return () => {
    system.removeEventListener("change", callback);
    window.removeEventListener("duetime-theme", callback);
  };
}
