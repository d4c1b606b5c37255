"""`graphs`: jobs that depend on each other, as a whole."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.markup import escape

from duetime.cli.groups import group
from duetime.cli.job_options import check_object
from duetime.cli.jobs import Limit
from duetime.cli.server_commands import ServerCommand, Yes, limited, list_command, read_lines, server_command
from duetime.cli.tables import seconds, state
from duetime.errors import InvalidInput
from duetime.wire.graphs import GraphView

graphs = group("Graphs of dependent jobs: list, submit, cancel, rerun.")

GraphId = Annotated[str, typer.Argument(metavar="GRAPH", help="The graph's id: gra_…")]


@graphs.command("list")
@list_command
def list_graphs(command: ServerCommand, limit: Limit = 50) -> None:
    """List graphs, newest first."""
    command.table(
        limited(command.client.graphs(page_size=min(limit, 200)), limit),
        "graph_id name status nodes=size created=created_at ended=ended_at",
        "no graphs. Submit one: duetime graphs submit FILE",
    )


@graphs.command()
@server_command
def submit(
    command: ServerCommand,
    file: Annotated[Path, typer.Argument(help="A JSON file with name and nodes (- reads standard input).")],
) -> None:
    """Submit a graph: all of its nodes, or none."""
    try:
        body = msgspec.json.decode("\n".join(read_lines(file)), type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise InvalidInput(f"is not a JSON object: {error}", field=str(file)) from None
    unknown = sorted(body.keys() - {"name", "nodes"})
    if unknown or not isinstance(body.get("nodes"), dict):
        raise InvalidInput("must contain `nodes`, and optionally `name`", field=str(file), remedy="see docs/graphs.md")
    for name, node in body["nodes"].items():
        check_object(node, f"nodes.{name}", """such as {"task": "greet"}""")
    _show(command, command.client.create_graph(body["nodes"], name=body.get("name")))


@graphs.command()
@server_command
def show(command: ServerCommand, graph: GraphId) -> None:
    """Show a graph: its nodes, their states and durations."""
    _show(command, command.client.get_graph(graph))


@graphs.command()
@server_command
def cancel(command: ServerCommand, graph: GraphId, yes: Yes = False) -> None:
    """Cancel the nodes that wait, and ask running ones to stop."""
    if command.must_confirm(yes=yes):
        left = sum(node.finished_at is None for node in command.client.get_graph(graph).nodes)
        command.confirm(f"Cancel {graph}, with {left:,} nodes that have not ended?")
    _show(command, command.client.cancel_graph(graph))


@graphs.command()
@server_command
def rerun(command: ServerCommand, graph: GraphId) -> None:
    """Rerun the nodes that did not succeed, and all that depend on them."""
    _show(command, command.client.rerun_graph(graph))


def _show(command: ServerCommand, graph: GraphView) -> None:
    if command.json:
        command.show(graph)
        return
    command.say(f"[bold]{escape(graph.graph_id)}[/]  {escape(graph.name or '')}  {state(graph.status)}")
    parents: dict[str, list[str]] = {}
    for edge in graph.edges:
        parents.setdefault(edge.child, []).append(edge.parent)
    command.table(
        graph.nodes,
        "node=name task status took after run_id",
        "the graph has no nodes",
        took=lambda node: None if node.duration is None else seconds(node.duration),
        after=lambda node: parents.get(node.name, []),
    )
