"""Where the files are: a folder, or a bucket of S3-compatible storage. All calls block: they run in threads.

A file appears whole or not at all. In a folder it is written beside its place, synced and renamed; S3 shows an object
once it is complete. Only the owner of the process can read the folder.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from duetime.archive.arrow import arrow
from duetime.errors import ArchiveUnavailable, DuetimeError, reason_of
from duetime.settings import Settings

_CONNECT_TIMEOUT = 5.0
_REQUEST_TIMEOUT = 60.0


class Storage(Protocol):
    @property
    def shown(self) -> str:
        """The address, without credentials."""

    def put(self, path: str, body: Any) -> None:
        """Write a file, in place of one that is there."""

    def get(self, path: str) -> Any:
        """A whole file as an Arrow buffer; None if it is missing."""

    def open(self, path: str) -> Any:
        """A file that Arrow reads at random. Raises `FileNotFoundError`."""

    def names(self, folder: str) -> list[str]:
        """The paths of all files below a folder."""

    def delete(self, path: str) -> None:
        """Delete a file, if it is there."""


class FolderStorage:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.shown = str(folder)

    def put(self, path: str, body: Any) -> None:
        place = self._folder / path
        with self._meaning():
            self._make_folders(place.parent)
            beside = place.with_name(f".{uuid4().hex}.part")
            try:
                with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    file.write(memoryview(body))
                    file.flush()
                    os.fsync(file.fileno())
                beside.replace(place)
                _sync(place.parent)
            finally:
                beside.unlink(missing_ok=True)

    def get(self, path: str) -> Any:
        with self._meaning():
            try:
                return arrow.core.py_buffer((self._folder / path).read_bytes())
            except FileNotFoundError:
                return None

    def open(self, path: str) -> Any:
        return arrow.core.OSFile(str(self._folder / path), "r")

    def names(self, folder: str) -> list[str]:
        with self._meaning():
            below = self._folder / folder
            return sorted(
                str(Path(root, name).relative_to(self._folder)) for root, _, names in os.walk(below) for name in names
            )

    def delete(self, path: str) -> None:
        with self._meaning():
            place = self._folder / path
            place.unlink(missing_ok=True)
            for parent in place.parents:
                if parent == self._folder:
                    break
                try:
                    parent.rmdir()
                except OSError:
                    break  # it is not empty, or was never made

    def _make_folders(self, folder: Path) -> None:
        missing = []
        while not folder.exists():
            missing.append(folder)
            folder = folder.parent
        for each in reversed(missing):
            each.mkdir(mode=0o700, exist_ok=True)
            _sync(each.parent)

    @contextmanager
    def _meaning(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise ArchiveUnavailable(
                f"the archive {self.shown} cannot be used: {reason_of(error)}", remedy="check archive_url"
            ) from error


class S3Storage:
    def __init__(self, bucket: str, prefix: str, options: dict[str, Any]) -> None:
        self._root = f"{bucket}/{prefix}".rstrip("/")
        self._options = options
        self._opened: Any = None
        self.shown = f"s3://{self._root}"

    @property
    def _files(self) -> Any:
        if self._opened is None:
            timeouts = {"connect_timeout": _CONNECT_TIMEOUT, "request_timeout": _REQUEST_TIMEOUT}
            self._opened = arrow.fs.S3FileSystem(**timeouts, **self._options)
        return self._opened

    def put(self, path: str, body: Any) -> None:
        with self._meaning(), self._files.open_output_stream(f"{self._root}/{path}") as file:
            file.write(body)

    def get(self, path: str) -> Any:
        try:
            with self._meaning(), self._files.open_input_file(f"{self._root}/{path}") as file:
                return file.read_buffer()
        except FileNotFoundError:
            return None

    def open(self, path: str) -> Any:
        with self._meaning():
            return self._files.open_input_file(f"{self._root}/{path}")

    def names(self, folder: str) -> list[str]:
        with self._meaning():
            wanted = arrow.fs.FileSelector(f"{self._root}/{folder}", recursive=True, allow_not_found=True)
            found = self._files.get_file_info(wanted)
        return sorted(each.path.removeprefix(f"{self._root}/") for each in found if each.is_file)

    def delete(self, path: str) -> None:
        with self._meaning():
            try:
                self._files.delete_file(f"{self._root}/{path}")
            except FileNotFoundError:
                return

    @contextmanager
    def _meaning(self) -> Iterator[None]:
        try:
            yield
        except (DuetimeError, FileNotFoundError):
            raise
        except OSError as error:
            raise ArchiveUnavailable(
                f"the archive {self.shown} cannot be used: {reason_of(error)[:300]}",
                remedy="check archive_url, archive_endpoint and the keys of the storage",
            ) from error


def storage_of(settings: Settings) -> Storage | None:
    """The storage that the settings name; None: history is not archived."""
    if settings.archive_url is None:
        return None
    parts = urlsplit(settings.archive_url)
    _ = arrow.core  # a process that lacks it must not start
    if parts.scheme == "file":
        return FolderStorage(Path(unquote(parts.path)))
    options: dict[str, Any] = {"region": settings.archive_region}
    if settings.archive_access_key is not None:
        options |= {"access_key": settings.archive_access_key, "secret_key": settings.archive_secret_key}
    if settings.archive_endpoint is not None:
        endpoint = urlsplit(settings.archive_endpoint)
        options |= {"endpoint_override": endpoint.netloc, "scheme": endpoint.scheme}
    return S3Storage(parts.netloc, unquote(parts.path).strip("/"), options)


def _sync(folder: Path) -> None:
    """So that a new name survives a power failure."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
