"""Makes untrusted text safe to display: characters that control a terminal or hide in a text are shown as escapes.

Submitters, workers and receivers choose names, errors, logs and results. A terminal obeys the control characters in
them, and every viewer obeys characters that change the text direction or have no width. They are replaced where text is
shown to people (command line, logs, mail, chat), and stay unchanged in the store and in the API.

`visible` is for one line, `visible_lines` for text that may have several, and `visible_json` for programs: it writes
the same characters as JSON escapes, so nothing is lost.
"""

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec

_HIDDEN = (
    "\x00-\x1f\x7f-\x9f"  # controls
    "\u00ad\u061c\u180e\u200b-\u200f\u2060-\u206f\ufeff"  # zero width, direction marks and isolates
    "\u2028-\u202e"  # line and paragraph separators, direction embeddings and overrides
    "\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f"  # annotations, formats, tags
    "\ud800-\udfff"  # lone surrogates, which no encoding can write
)
_IN_LINE = re.compile(f"[{_HIDDEN}]")
_IN_LINES = re.compile(f"\r\n|(?![\t\n])[{_HIDDEN}]")


def visible(text: str) -> str:
    """The text on one line: line breaks and tabs are escaped too."""
    return _IN_LINE.sub(_escape, text)


def visible_lines(text: str, *, indent: str = "") -> str:
    """The text with its line breaks and tabs. `indent` is put before every line but the first, so that no line can pass
    for the beginning of something else."""
    shown = _IN_LINES.sub(_escape_in_lines, text)
    return shown.replace("\n", "\n" + indent) if indent else shown


def visible_json(value: object, *, enc_hook: Callable[[Any], Any] | None = None) -> str:
    """The value as JSON on one line."""
    try:
        text = msgspec.json.encode(value, enc_hook=enc_hook).decode()
    except UnicodeEncodeError:  # a lone surrogate
        text = json.dumps(msgspec.to_builtins(value, enc_hook=enc_hook), separators=(",", ":"))
    return _IN_LINE.sub(_json_escape, text)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def _escape_in_lines(match: re.Match[str]) -> str:
    return "\n" if match[0] == "\r\n" else _escape(match)


def _json_escape(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1] if match[0] > "\x7f" else f"\\u{ord(match[0]):04x}"
