"""A picture of a run, drawn by hand so that nothing has to be installed: faults above, lag and throughput below."""

from collections.abc import Mapping, Sequence
from html import escape

from chaos.figures import Figures

_WIDTH, _LEFT, _ROW, _PLOT = 1_100, 170, 14, 150


def draw(figures: Figures, title: str) -> str:
    """An SVG."""
    kinds = sorted({kind.partition(":")[0] for _, _, kind in figures.faults})
    seconds = max([1, *figures.throughput, *figures.lag, *(round(until) for _, until, _ in figures.faults)])
    scale = (_WIDTH - _LEFT - 20) / seconds
    top = 40
    parts = [f'<text x="10" y="22" font-size="16">{escape(title)}</text>']
    for row, kind in enumerate(kinds):
        y = top + row * _ROW
        parts.append(f'<text x="10" y="{y + 10}">{escape(kind)}</text>')
        for start, until, struck in figures.faults:
            if struck.partition(":")[0] == kind:
                wide = max(2.0, (until - start) * scale)
                parts.append(
                    f'<rect x="{_LEFT + start * scale:.1f}" y="{y}" width="{wide:.1f}" height="{_ROW - 3}"'
                    f' fill="#c33" opacity="0.6"/>'
                )
    y = top + len(kinds) * _ROW + 30
    parts += _plot("lag, p95 of each second (s)", figures.lag, y, scale, "#a60")
    y += _PLOT + 50
    parts += _plot("runs ended each second", dict(figures.throughput), y, scale, "#06a")
    y += _PLOT + 40
    return _svg([*parts, _axis(seconds, scale, y - 20)], y)


def draw_series(series: Mapping[str, Sequence[float]], title: str) -> str:
    """An SVG with a small plot for each series that is not all zero."""
    parts, y = [f'<text x="10" y="22" font-size="16">{escape(title)}</text>'], 40.0
    for name, values in sorted(series.items()):
        if max(values, default=0.0) <= 0:
            continue
        scale = (_WIDTH - 2 * _LEFT) / len(values)
        parts += _plot(name, dict(enumerate(values)), y, scale, "#06a", left=2 * _LEFT, tall=40)
        y += 60
    return _svg(parts, y)


def _svg(parts: Sequence[str], tall: float) -> str:
    style = "font-family:sans-serif;font-size:11px"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{tall}" style="{style}">'
        f'<rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n'
    )


def _plot(
    name: str,
    values: Mapping[int, float],
    y: float,
    scale: float,
    colour: str,
    *,
    left: int = _LEFT,
    tall: int = _PLOT,
) -> list[str]:
    most = max([*values.values(), 1e-9])
    parts = [
        f'<text x="10" y="{y + 10}">{escape(name)}</text>',
        f'<text x="{left - 8}" y="{y + 10}" text-anchor="end">{most:.3g}</text>',
        f'<text x="{left - 8}" y="{y + tall}" text-anchor="end">0</text>',
        f'<line x1="{left}" y1="{y + tall}" x2="{_WIDTH - 20}" y2="{y + tall}" stroke="#999"/>',
    ]
    for place, value in values.items():
        height = tall * value / most
        parts.append(
            f'<rect x="{left + place * scale:.1f}" y="{y + tall - height:.1f}" width="{max(1.0, scale * 0.9):.1f}"'
            f' height="{height:.1f}" fill="{colour}"/>'
        )
    return parts


def _axis(seconds: int, scale: float, y: float) -> str:
    step = max(1, round(seconds / 10))
    return "".join(
        f'<text x="{_LEFT + at * scale:.1f}" y="{y}" text-anchor="middle">{at} s</text>'
        for at in range(0, seconds + 1, step)
    )
