"""`python -m duetime.cli` is the `duetime` command."""

from duetime.cli.main import main

main()
