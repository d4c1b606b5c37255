"""Sphinx's configuration. build.py runs it on the staged pages."""

import html
import os
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive

HERE = Path(__file__).parent

project = "duetime"
author = "The duetime authors"
project_copyright = author
version = release = os.environ["DOCS_VERSION"]
extensions = ["myst_parser", "sphinx_copybutton"]
root_doc = "index"
language = "en"

myst_heading_anchors = 4
myst_fence_as_directive = {"mermaid"}
highlight_language = "text"
# Examples leave things out with an ellipsis, which no lexer of JSON knows. Such a block is still highlighted.
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "pydata_sphinx_theme"
html_title = f"duetime {version}"
html_static_path = [str(HERE / "static"), str(HERE / "vendor")]
html_extra_path = [str(HERE.parents[1] / "openapi.json")]
html_css_files = ["site.css"]
html_favicon = str(HERE.parents[1] / "src" / "duetime" / "dashboard" / "static" / "icon.svg")
html_context = {"default_mode": "auto"}
html_copy_source = False
html_show_sourcelink = False
html_theme_options: dict[str, Any] = {
    "logo": {"text": "duetime"},
    "header_links_before_dropdown": 7,
    "navbar_end": ["version-switcher", "theme-switcher", "navbar-icon-links"],
    "icon_links": [{"name": "Source", "url": os.environ["DOCS_SOURCE"], "icon": "fa-brands fa-github"}],
    "switcher": {"json_url": "../switcher.json", "version_match": version},
    "check_switcher": False,
    "navigation_depth": 1,  # deeper ones fold, behind buttons that the theme gives no name
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copybutton_exclude = ".linenos, .gp"


class Mermaid(Directive):
    """A diagram as text, which the page draws. Its first line, `%% …`, describes it for people who cannot see it."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        first = self.content[0]
        if not first.startswith("%% "):
            raise self.error("the first line of a diagram describes it: %% what it shows")
        text, label = html.escape("\n".join(self.content)), html.escape(first.removeprefix("%% "))
        drawing = f'<div class="diagram" role="img" aria-label="{label}"><pre class="mermaid-text">{text}</pre></div>'
        self.state.document.settings.env.metadata[self.state.document.settings.env.docname]["diagrams"] = "yes"
        return [nodes.raw("", drawing, format="html")]


def add_scripts(app: Any, name: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Only pages with diagrams load what draws them."""
    if "diagrams" in app.env.metadata.get(name, {}):
        app.add_js_file("mermaid.js", loading_method="defer")
        app.add_js_file("diagrams.js", loading_method="defer")


def setup(app: Any) -> dict[str, Any]:
    app.add_directive("mermaid", Mermaid)
    app.connect("html-page-context", add_scripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
