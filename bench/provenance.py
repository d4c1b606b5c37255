"""The sentence that says when, on which machine and of which revision a result was measured."""

from typing import Any

from bench.knobs import Knobs


def measured(body: dict[str, Any]) -> str:
    machine = body["machine"]
    text = f"Measured at {body['measured_at']} on {machine['processors']} cores ({machine['architecture']},"
    text += f" Python {machine['python']}, {machine['busy_before']:.0%} busy before)"
    text += f", PostgreSQL {body['postgres']}" if "postgres" in body else ""
    older = ", revision not recorded (older harness; measure again)"
    text += f", revision {body['revision']}" if "revision" in body else older
    return text + _otherwise(Knobs(**body.get("knobs", {})))


def _otherwise(asked: Knobs) -> str:
    """Sizes that are not the usual ones."""
    usual = Knobs()
    sizes = [
        f"{name} {_count(each)} instead of {_count(getattr(usual, name))}" for name, each in asked.changed().items()
    ]
    return f"; **with {', '.join(sizes)}**" if sizes else ""


def _count(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if value == int(value) else f"{value:,}"
