"""Modules joined to one script behave as the modules do."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from duetime.dashboard import Files
from duetime.dashboard.bundle import bundle

MODULES = {
    "app.js": 'import { twice, SIZE as size } from "./core/numbers.js";\n'
    'import { $all, late } from "./core/more.js";\nimport thing from "./vendor/thing.js";\n'
    "late().then((name) => console.log(twice(size), name, thing, $all.length));\n",
    "core/numbers.js": 'import { plus } from "./more.js";\nexport { name } from "../vendor/thing.js";\n'
    "export const SIZE = 4;\nexport function twice(n) {\n  return plus(n, n);\n}\n",
    "core/more.js": 'import {\n  name,\n} from "../vendor/thing.js";\n'
    "function plus(a, b) {\n  return a + b;\n}\nexport { plus };\n"
    "export async function late() {\n  return name;\n}\nexport const $all = [1, 2];\n",
    "core/unused.js": "export const unused = 1;\n",
    "vendor/thing.js": 'export const name = "a name";\nexport default "a default";\n',
}


def joined(**changed: str) -> str:
    return bundle("app.js", MODULES | {name.replace("__", "/") + ".js": text for name, text in changed.items()})


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node")
def test_a_bundle_runs_as_its_modules_do(tmp_path: Path) -> None:
    (tmp_path / "vendor").mkdir()
    (tmp_path / "vendor" / "thing.js").write_text(MODULES["vendor/thing.js"])
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "app.js").write_text(joined())
    ran = subprocess.run(["node", tmp_path / "app.js"], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.stdout, ran.stderr) == ("8 a name a default 2\n", "")


def test_a_module_is_in_it_once_and_after_what_it_imports() -> None:
    text = joined(app='import { twice } from "./core/numbers.js";\nimport { late } from "./core/more.js";\n')
    assert re.findall(r"^// (\S+)$", text, re.MULTILINE) == ["core/more.js", "core/numbers.js", "app.js"]
    assert text.count('from "./vendor/thing.js"') == 1


@pytest.mark.parametrize(
    "text",
    [
        "export default 3;\n",
        "export let changing = 3;\n",
        'export * from "./core/more.js";\n',
        'import * as all from "./core/more.js";\n',
        'const later = () => import("./core/more.js");\n',
        "console.log(import.meta.url);\n",
        "const a = 1;\nexport { a as b };\n",
    ],
)
def test_an_unknown_form_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"not known here|no other name"):
        joined(app=text)


def test_modules_that_import_each_other_are_an_error() -> None:
    with pytest.raises(
        ValueError, match=r"import each other: app\.js → core/more\.js → core/numbers\.js → core/more\.js"
    ):
        joined(app='import { late } from "./core/more.js";\n', core__more='import { SIZE } from "./numbers.js";\n')


def test_the_page_loads_few_files() -> None:
    files = Files()
    page = files.page.body.decode()
    asked = re.findall(rf'(?:src|href)="/assets/{files.version}/([^"]+)"', page)
    assert len(asked) == len(set(asked)) <= 5
    assert all(files.file(files.version, name) is not None for name in asked)
    script = files.file(files.version, "dashboard.js")
    assert script is not None
    imported = set(re.findall(r'^import .* from "\./(.+)";$', script.body.decode(), re.MULTILINE))
    assert imported <= set(asked), "what the script imports is loaded with it, not after it"
