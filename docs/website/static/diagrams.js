// Draws the diagrams of a page, and draws them again when the reader changes between light and dark.

const draw = async () => {
  const dark = document.documentElement.dataset.theme === "dark"
  mermaid.initialize({
    startOnLoad: false, theme: dark ? "dark" : "neutral", fontFamily: "inherit",
    themeVariables: dark ? { edgeLabelBackground: "#222222" } : {}, // its own is too light for its text
  })
  for (const [number, diagram] of document.querySelectorAll(".diagram").entries()) {
    diagram.source ??= diagram.textContent
    const { svg } = await mermaid.render(`diagram-${number}`, diagram.source)
    diagram.innerHTML = svg
    diagram.firstElementChild.setAttribute("aria-hidden", "true") // its text is the label of the diagram
    diagram.dataset.drawn = dark ? "dark" : "light"
  }
}

draw()
new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["data-theme"] })
