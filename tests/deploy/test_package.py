"""The package as users install it: built, and installed into a new environment.

`make release` runs this for the files in `dist`. Nothing is fetched: the dependencies are those of the environment that
runs the tests.
"""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest
import yaml

from duetime import __version__

ROOT = Path(__file__).parents[2]


def run(*command: str | Path, folder: Path, **environ: str) -> str:
    """What a command prints. It sees no settings and no folders of these tests."""
    ended = subprocess.run(
        [str(each) for each in command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), **environ},
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    given = os.environ.get("DUETIME_TEST_DIST")
    if given is not None:
        return ROOT / given
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", folder, folder=ROOT)
    return folder


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as file:
        return message_from_string(file.read(f"duetime-{__version__}.dist-info/METADATA").decode())


def test_the_wheel_has_the_code_and_no_more(dist: Path) -> None:
    with zipfile.ZipFile(only(dist, f"duetime-{__version__}-py3-none-any.whl")) as file:
        names = file.namelist()
    source = ROOT / "src" / "duetime"
    wanted = {f"duetime/{path.relative_to(source)}" for path in source.rglob("*") if path.is_file()}
    wanted = {name for name in wanted if "__pycache__" not in name}
    assert {name for name in names if name.startswith("duetime/")} == wanted and "duetime/py.typed" in wanted
    assert all(name.startswith(("duetime/", f"duetime-{__version__}.dist-info/")) for name in names)


def test_the_metadata_is_complete(dist: Path) -> None:
    found = metadata_of(only(dist, "*.whl"))
    assert (found["Name"], found["Version"], found["Requires-Python"]) == ("duetime", __version__, ">=3.11")
    assert (found["License-Expression"], found["Description-Content-Type"]) == ("Apache-2.0", "text/markdown")
    classifiers = found.get_all("Classifier", [])
    for version in ("3.11", "3.12", "3.13", "3.14"):
        assert f"Programming Language :: Python :: {version}" in classifiers
    assert "Typing :: Typed" in classifiers
    labels = {each.partition(",")[0] for each in found.get_all("Project-URL", [])}
    assert labels == {"Source", "Documentation", "Changelog", "Issues"}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(found.get_all("Provides-Extra", [])) == set(extras)


def test_the_readme_is_shown_with_links_that_work_elsewhere(dist: Path) -> None:
    text = str(metadata_of(only(dist, "*.whl")).get_payload())
    assert text.startswith("# duetime\n")
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert links and all(link.startswith(("https://", "#")) for link in links), links
    source = "https://github.com/duetime/duetime/"
    for link in links:
        if link.startswith(source):
            _, _, path = link.removeprefix(source).partition("/main/")
            assert (ROOT / path.partition("#")[0]).exists(), link


def test_the_source_builds_the_same_wheel(dist: Path, tmp_path: Path) -> None:
    with tarfile.open(only(dist, f"duetime-{__version__}.tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = tmp_path / f"duetime-{__version__}"
    assert (unpacked / "LICENSE").is_file() and (unpacked / "tests" / "conftest.py").is_file()
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, folder=unpacked)
    with zipfile.ZipFile(only(tmp_path, "*.whl")) as made, zipfile.ZipFile(only(dist, "*.whl")) as built:
        assert {each.filename: each.CRC for each in made.infolist()} == {
            each.filename: each.CRC for each in built.infolist()
        }


def test_it_runs_in_a_new_environment(dist: Path, tmp_path: Path) -> None:
    """Beside a module of the user's, as in the readme."""
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", venv, folder=tmp_path)
    python = venv / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "-q")
    run(*pip, only(dist, "*.whl"), folder=tmp_path)
    (packages,) = (venv / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    readme = (ROOT / "README.md").read_text()
    (tmp_path / "reports.py").write_text(readme.partition("```python\n")[2].partition("```")[0])
    where = "import duetime; print(duetime.__file__, duetime.__version__)"
    assert run(python, "-c", where, folder=tmp_path).split() == [str(packages / "duetime/__init__.py"), __version__]
    assert run(venv / "bin" / "duetime", "--version", folder=tmp_path) == f"duetime {__version__}\n"
    found = run(venv / "bin" / "duetime", "doctor", "reports:app", folder=tmp_path)
    assert "reports:app has the tasks reports.send_report" in found


def test_the_version_is_the_same_everywhere() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(rf"^## \[{re.escape(__version__)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE)
    chart = yaml.safe_load((ROOT / "deploy" / "helm" / "duetime" / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    assert f'"{__version__}"' not in (ROOT / "pyproject.toml").read_text(), "src/duetime/version.py says it"
