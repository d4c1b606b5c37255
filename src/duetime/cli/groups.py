"""Groups of commands about one kind of object. Without a subcommand, a group lists its objects."""

from typing import Any

import typer
from typer.core import TyperGroup


class _ListsByDefault(TyperGroup):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # A shell that completes the word after the group's name wants the subcommands.
        if (not args and not ctx.resilient_parsing) or (args and args[0].startswith("-") and args[0] != "--help"):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def group(help: str) -> typer.Typer:
    return typer.Typer(cls=_ListsByDefault, help=f"{help} Without a subcommand, lists them.")
