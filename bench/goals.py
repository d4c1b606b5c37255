"""What figures must reach, and what they are stretched for."""

from bench.peers.names import PYTHON_PEERS


class Target:
    """What a figure must reach: itself (`least`, `most`), or as a ratio to the limit or the best peer `among` these.
    `stretch` is what it would be good to reach: told, and never judged by."""

    def __init__(
        self,
        *,
        least: float | None = None,
        most: float | None = None,
        of_limit: float | None = None,
        of_best_peer: float | None = None,
        among: frozenset[str] = PYTHON_PEERS,
        stretch: float | None = None,
    ) -> None:
        self.among = among
        self.stretch = stretch
        self.wanted: dict[str, float] = {
            name: value
            for name, value in (
                ("least", least),
                ("most", most),
                ("of_limit", of_limit),
                ("of_best_peer", of_best_peer),
            )
            if value is not None
        }

    @property
    def asks_for_peers(self) -> bool:
        return "of_best_peer" in self.wanted

    def reached(
        self, ours: float, of_limit: float | None, of_peer: float | None, *, all_peers: bool = True
    ) -> bool | None:
        """None when what it is compared with was not measured. Without `all_peers` one that is missing might have been
        the best: the best of the others can show that a target is missed, and not that it is reached."""
        checks: list[bool | None] = []
        for name, wanted in self.wanted.items():
            match name:
                case "least":
                    checks.append(ours >= wanted)
                case "most":
                    checks.append(ours <= wanted)
                case "of_limit":
                    checks.append(None if of_limit is None else of_limit >= wanted)
                case _:
                    beaten = None if of_peer is None else of_peer >= wanted
                    checks.append(None if beaten and not all_peers else beaten)
        if False in checks:
            return False
        return None if None in checks else True

    def __str__(self) -> str:
        texts = {"least": "≥ {:,g}", "most": "≤ {:,g}", "of_limit": "≥ {:g} × limit", "of_best_peer": "≥ {:g} × peer"}
        return ", ".join(texts[name].format(value) for name, value in self.wanted.items())
