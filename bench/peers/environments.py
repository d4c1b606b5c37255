"""Environments of the peers' own: made when they are first asked for, kept in `bench/.peers`, with pinned versions."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).parents[1] / ".peers"
REQUIREMENTS = Path(__file__).parent / "requirements"


class CannotRun(Exception):
    """A peer cannot be measured on this machine; the text says why."""


def python_of(name: str) -> Path:
    """The interpreter of an environment with what `requirements/<name>.txt` pins."""
    requirements = REQUIREMENTS / f"{name}.txt"
    folder = HOME / name
    python = folder / "bin" / "python"
    if not _is_fresh(folder, requirements):
        _say(f"making an environment for {name}")
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        _run(sys.executable, "-m", "venv", str(folder))
        pip = (str(python), "-m", "pip", "-qq", "--disable-pip-version-check")
        _run(*pip, "install", "--only-binary=:all:", "-r", str(requirements))
        _stamp(folder, requirements)
    return python


def node_home(name: str) -> Path:
    """A folder with the Node modules that `requirements/<name>/` pins."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise CannotRun("Node is not installed")
    source = REQUIREMENTS / name
    folder = HOME / name
    if not _is_fresh(folder, source / "package-lock.json"):
        _say(f"installing Node modules for {name}")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, folder)
        _run("npm", "ci", "--no-audit", "--no-fund", "--silent", "--ignore-scripts", cwd=folder)
        _stamp(folder, source / "package-lock.json")
    return folder


def redis_server() -> tuple[str, dict[str, str]]:
    """A Redis or Valkey server program, and what its environment needs: REDIS_SERVER, the system's, or Debian's
    package unpacked into a folder of ours."""
    for name in (os.environ.get("REDIS_SERVER"), "redis-server", "valkey-server"):
        if name and (found := shutil.which(name)):
            return found, {}
    folder = HOME / "redis"
    program = folder / "usr" / "bin" / "redis-server"
    if not program.exists():
        _unpack_redis(folder)
    libraries = [str(path) for path in (folder / "usr" / "lib").glob("*-linux-gnu*")]
    return str(program), {"LD_LIBRARY_PATH": ":".join(libraries)}


def _unpack_redis(folder: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise CannotRun("there is no redis-server (set REDIS_SERVER to one)")
    _say("fetching Redis")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _run("apt-get", "download", "-qq", "redis-server", "redis-tools", "liblzf1", "libjemalloc2", cwd=folder)
    for package in folder.glob("*.deb"):
        _run("dpkg", "-x", str(package), str(folder))


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def _run(*command: str, cwd: Path | None = None) -> None:
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=600)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotRun(f"{command[0]}: {error}") from None
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise CannotRun(f"{' '.join(command[:4])} failed: {' '.join(last)}")


def _is_fresh(folder: Path, source: Path) -> bool:
    stamp = folder / ".made-from"
    return stamp.exists() and stamp.read_text() == _digest(source)


def _stamp(folder: Path, source: Path) -> None:
    (folder / ".made-from").write_text(_digest(source))


def _digest(source: Path) -> str:
    return hashlib.sha256(source.read_bytes()).hexdigest()
