"""`make docs-site`: stages the pages, adds those that are written from the code, and runs Sphinx. Any warning fails.

A site holds a folder per version. Building into a site that has other versions keeps them.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from docs.website import reference
from duetime import __version__

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
HERE = DOCS / "website"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SOURCE = PROJECT["urls"]["Source"]
BESIDE_DOCS = {"CHANGELOG.md": "changelog", "CONTRIBUTING.md": "contributing", "SECURITY.md": "security"}
"""Pages from outside docs, by their name on the site."""
SHOWN_BY = {"README.md": "index", "openapi.json": "reference/http", "docs/decisions": "decisions"}
"""Files and folders of the repository that a page of the site takes the place of."""
_LINK = re.compile(r"(!?\[[^\]]*\])\((?!https?:|#|mailto:)([^)#\s]*)(#[^)\s]*)?\)")
_CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)


class Section(NamedTuple):
    name: str
    slug: str
    lead: str
    pages: list[str]


def pages() -> dict[str, Path]:
    """The pages that people write, by their name on the site."""
    found = {str(path.relative_to(DOCS).with_suffix("")): path for path in sorted(DOCS.rglob("*.md"))}
    return found | {name: ROOT / file for file, name in BESIDE_DOCS.items()}


def sections(names: set[str]) -> list[Section]:
    """Each page in the first section that names it; of patterns, the last ones to choose."""
    left = {name for name in names if not name.startswith("decisions/") and name != "index"}
    asked: list[dict[str, Any]] = tomllib.loads((HERE / "navigation.toml").read_text())["section"]
    chosen: dict[str, list[str]] = {}
    plain = {name for section in asked for name in section["pages"] if "*" not in name}
    if missing := plain - left:
        raise SystemExit(f"docs/website/navigation.toml names pages that do not exist: {', '.join(sorted(missing))}")
    left -= plain
    for section in asked:
        chosen[section["slug"]] = []
        for name in section["pages"]:
            matching = [name] if name in plain else sorted(page for page in left if fnmatch(page, name))
            left -= set(matching)
            chosen[section["slug"]] += matching
    return [Section(each["name"], each["slug"], each["lead"], chosen[each["slug"]]) for each in asked]


def with_links(text: str, page: Path, name: str, names: dict[Path, str]) -> str:
    """Links between pages as they are on the site; to other files of the repository, links to its source."""

    def relinked(match: re.Match[str]) -> str:
        words, target, anchor = match[1], match[2], match[3] or ""
        linked = (page.parent / target).resolve()
        if linked in names:
            return f"{words}({os.path.relpath(names[linked], Path(name).parent)}.md{anchor})"
        if words.startswith("!"):
            return f"{words}({os.path.relpath(f'images/{linked.name}', Path(name).parent)})"
        return f"{words}({SOURCE}/blob/main/{linked.relative_to(ROOT)}{anchor})"

    return "".join(part if index % 2 else _LINK.sub(relinked, part) for index, part in enumerate(_CODE.split(text)))


def toctree(names: list[str], *options: str) -> str:
    return "\n".join(["", "```{toctree}", *(f":{option}" for option in options), "", *names, "```", ""])


def stage(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    written, made = pages(), reference.pages()
    names = {path.resolve(): name for name, path in written.items()}
    names |= {(ROOT / file).resolve(): name for file, name in SHOWN_BY.items()}
    texts = {name: with_links(path.read_text("utf-8"), path, name, names) for name, path in written.items()}
    decisions = sorted(name for name in written if name.startswith("decisions/"))
    texts |= made | {"decisions": "# Decisions\n\nWhy duetime is built as it is.\n" + toctree(decisions)}
    order = sections(set(texts))
    for section in order:
        texts[section.slug] = f"# {section.name}\n\n{section.lead}\n" + toctree(section.pages, "maxdepth: 1")
    texts["index"] += toctree([section.slug for section in order if section.pages], "hidden:")
    for name, text in texts.items():
        place = folder / f"{name}.md"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8")
    (folder / "images").mkdir()
    for image in [*(DOCS / "images").iterdir(), *(ROOT / "bench" / "results").glob("*.png")]:
        shutil.copy(image, folder / "images")


def build(folder: Path, output: Path) -> None:
    shutil.rmtree(output, ignore_errors=True)
    doctrees = folder.with_name("doctrees")
    shutil.rmtree(doctrees, ignore_errors=True)
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-n",
        "-c",
        HERE,
        "-d",
        doctrees,
        folder,
        output,
    ]
    environ = os.environ | {"DOCS_VERSION": __version__, "DOCS_SOURCE": SOURCE}
    if code := subprocess.run([str(each) for each in command], env=environ, check=False).returncode:
        raise SystemExit(code)


def list_versions(site: Path, url: str) -> None:
    """The menu of versions, and the way from the root of the site to the newest."""

    def order(version: str) -> list[int]:
        return [int(number) for number in re.findall(r"\d+", version)]

    found = sorted((path.parent.name for path in site.glob("*/objects.inv")), key=order, reverse=True)
    entries = [
        {"name": version, "version": version, "url": f"{url.rstrip('/')}/{version}/", "preferred": version == found[0]}
        for version in found
    ]
    (site / "switcher.json").write_text(json.dumps(entries, indent=1), "utf-8")
    (site / "index.html").write_text(
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>duetime</title>'
        f'<link rel="icon" href="{found[0]}/_static/icon.svg">'
        f'<meta http-equiv="refresh" content="0; url={found[0]}/index.html"></head>'
        f'<body><main><h1>duetime</h1><p><a href="{found[0]}/index.html">The documentation</a></p></main></body>'
        "</html>\n",
        "utf-8",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--site", type=Path, default=ROOT / "build" / "site", help="the folder of all versions")
    parser.add_argument("--url", default="/", help="where the site will be")
    given = parser.parse_args()
    staged = ROOT / "build" / "website" / "pages"
    stage(staged)
    build(staged, given.site / __version__)
    list_versions(given.site, given.url)
    print(f"{given.site / __version__ / 'index.html'}")


if __name__ == "__main__":
    main()
