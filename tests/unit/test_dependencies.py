"""What duetime needs: that an environment which is too old is refused when it is installed, not when it runs."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
NEEDS = [Requirement(each) for each in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]]


def test_every_dependency_says_how_old_it_may_be() -> None:
    for need in NEEDS:
        assert [each.operator for each in need.specifier] == [">="], need.name


def test_the_lock_files_hold_what_is_asked_for() -> None:
    for name in ("requirements.lock", "requirements-dev.lock"):
        locked = dict(re.findall(r"^([a-z0-9-]+)==([^ ;\\]+)", (ROOT / name).read_text(), re.MULTILINE))
        for need in NEEDS:
            assert need.specifier.contains(locked[need.name]), f"{name}: {need} and {locked[need.name]}"
