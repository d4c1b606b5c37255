"""`export`: everything that a tenant owns, as files.

The folder gets a file for each section, with one JSON object per line, and `export.json`, which says how far each is.
It is written after each page, once the page is on disk: an export that was stopped continues there, and a part of a
page that was written after the last note is cut off first.
"""

import os
import re
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
import typer
from rich.progress import Progress

from duetime.cli.output import err
from duetime.cli.server_commands import ServerCommand, server_command
from duetime.errors import InvalidInput, ServerUnavailable

NOTES = "export.json"
_SECTION = r"[a-z][a-z0-9_-]{0,60}"


class Section(msgspec.Struct):
    objects: int = 0
    size: int = 0
    """Bytes of the file that are whole pages."""
    cursor: str | None = None
    done: bool = False


class Notes(msgspec.Struct):
    tenant: str
    number: int
    begun_at: str
    sections: dict[str, Section]
    format: int = 1


@server_command
def export(
    command: ServerCommand,
    folder: Annotated[Path, typer.Argument(help="Where the files are written. An unfinished export is continued.")],
) -> None:
    """Write everything that the tenant owns to files: jobs, runs, attempts with logs and results, archived history,
    the audit log and all settings. Needs an admin's key."""
    notes = _begun(command, folder)
    with Progress(console=err, transient=True, disable=command.json) as progress:
        under_way = progress.add_task("exporting", total=len(notes.sections))
        for number, (name, section) in enumerate(notes.sections.items()):
            with _opened(folder / f"{name}.jsonl", section) as file:
                while not section.done:
                    shown = f"{name}: {section.objects:,} objects"
                    progress.update(under_way, completed=number, description=shown)
                    page = command.client.export_section(name, cursor=section.cursor)
                    lines = b"".join([msgspec.json.encode(item) + b"\n" for item in page.items])
                    file.write(lines)
                    file.flush()
                    os.fsync(file.fileno())
                    section.objects += len(page.items)
                    section.size += len(lines)
                    section.cursor, section.done = page.next_cursor, page.next_cursor is None
                    _note(folder, notes)
    objects = sum(section.objects for section in notes.sections.values())
    size = sum(section.size for section in notes.sections.values())
    command.say(
        f"exported {objects:,} objects of {notes.tenant} in {len(notes.sections)} files, {size:,} bytes: {folder}",
        objects=objects,
        bytes=size,
        files=len(notes.sections),
    )


def _begun(command: ServerCommand, folder: Path) -> Notes:
    """A new export, or the one that was begun in this folder."""
    place = folder / NOTES
    try:
        found = msgspec.json.decode(place.read_bytes(), type=Notes)
    except FileNotFoundError:
        found = None
    except (OSError, msgspec.MsgspecError) as error:
        raise InvalidInput(f"cannot be read: {error}", field=str(place), remedy="give another folder") from None
    if found is not None and all(section.done for section in found.sections.values()):
        raise InvalidInput("holds an export that is complete", field=str(folder), remedy="give another folder")
    plan = command.client.begin_export()
    for name in plan.sections:
        if re.fullmatch(_SECTION, name) is None:  # it is the name of a file here
            raise ServerUnavailable(f"the server names a section {name[:40]!r}", remedy="is it a server of duetime?")
    if found is not None:
        if found.number != plan.number:
            raise InvalidInput(
                f"holds an export of the tenant {found.tenant}", field=str(folder), remedy="give another folder"
            )
        return found
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InvalidInput("is not empty", field=str(folder), remedy="give a new folder")
        notes = Notes(plan.tenant, plan.number, plan.at.isoformat(), {name: Section() for name in plan.sections})
        _note(folder, notes)
    except OSError as error:
        raise InvalidInput(f"cannot be written: {error.strerror}", field=str(folder)) from None
    return notes


def _opened(path: Path, section: Section) -> BinaryIO:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.ftruncate(handle, section.size)
    os.lseek(handle, section.size, os.SEEK_SET)
    return os.fdopen(handle, "wb")


def _note(folder: Path, notes: Notes) -> None:
    beside = folder / f".{NOTES}.part"
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(notes), indent=2))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(folder / NOTES)
