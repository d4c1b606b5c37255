"""Fingerprints of errors: equal for errors of one kind, whatever their numbers, ids and quoted values.

A fingerprint covers the class of the failure, the first line of the error without its variable parts, and the innermost
frames of the traceback by function name, not by line: it survives a deployment that moves code.
"""

import re
from hashlib import blake2b

from duetime.model.failure import FailureClass

_FRAMES = 3
_LONGEST = 500
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]*)", line \d+, in (?P<function>.+)$', re.MULTILINE)
_VARYING = (
    (re.compile(r"\b[a-z]{3}_[0-9a-hjkmnp-tv-z]{26}\b"), "<id>"),
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"\bhttps?://[^\s'\"<>)]+", re.IGNORECASE), "<url>"),
    (re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b"), "<email>"),
    (re.compile(r"'[^']*'|\"[^\"]*\""), "<text>"),
    (re.compile(r"\b0x[0-9a-f]+\b|\b(?=[0-9a-f]*[0-9])[0-9a-f]{8,}\b", re.IGNORECASE), "<hex>"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "<n>"),
)


def fingerprint(failure: FailureClass | None, error: str | None) -> str:
    """16 characters, equal for errors of one kind."""
    head, _, traceback = (error or "").partition("\n")
    kind = "" if failure is None else failure.label
    frames = [f"{_module(match['file'])}:{match['function']}" for match in _FRAME.finditer(traceback)][-_FRAMES:]
    text = "\n".join([kind, normalised(head), *frames])
    return blake2b(text.encode(), digest_size=8).hexdigest()


def normalised(line: str) -> str:
    """A line without its variable parts."""
    line = line[:_LONGEST]
    for pattern, word in _VARYING:
        line = pattern.sub(word, line)
    return " ".join(line.split())


def _module(file: str) -> str:
    """Only the file's name: the install location says nothing about the error."""
    return file.replace("\\", "/").rpartition("/")[2]
