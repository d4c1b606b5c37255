"""Looks at the environment of every process above this one: prints what it could see of each."""

import os
import re
from pathlib import Path

KEYS = re.compile(rb"DUETIME_(ENCRYPTION_KEYS|DATABASE_URL)=[!-~]")


def main() -> None:
    pid = os.getppid()
    while pid > 1:
        try:
            seen = "SECRET" if KEYS.search(Path(f"/proc/{pid}/environ").read_bytes()) else "nothing"
        except OSError as error:
            seen = error.strerror or "an error"
        print(f"{pid}: {seen}")
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


if __name__ == "__main__":
    main()
