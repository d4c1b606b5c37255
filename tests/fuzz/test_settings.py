"""Whatever stands in the environment or in the file: settings, or an error that names what is wrong."""

import contextlib
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from duetime.errors import SettingsError
from duetime.settings import Settings, describe, load
from tests.fuzz.strategies import fuzzed, texts, values

VARIABLES = [described.variable for described in describe()]
NAMES = list(Settings.__struct_fields__)


@fuzzed
@given(st.dictionaries(st.sampled_from(VARIABLES), texts, max_size=4))
def test_variables(environ: dict[str, str]) -> None:
    with contextlib.suppress(SettingsError):
        repr(load(None, environ, {}))


@fuzzed
@given(st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=10), values, max_size=4))
def test_flags(flags: dict[str, Any]) -> None:
    with contextlib.suppress(SettingsError):
        repr(load(None, {}, flags))


@fuzzed
@given(st.text(max_size=80) | st.tuples(st.sampled_from(NAMES), values).map(lambda pair: f"{pair[0]} = {pair[1]!r}"))
def test_files(content: str) -> None:
    with tempfile.NamedTemporaryFile(suffix=".toml") as file:
        file.write(content.encode("utf-8", "surrogatepass"))
        file.flush()
        with contextlib.suppress(SettingsError):
            repr(load(Path(file.name), {}, {}))
