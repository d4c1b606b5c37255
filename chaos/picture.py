"""A picture of a run, drawn by hand so that nothing has to be installed: faults above, lag and throughput below."""

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
    style = "font-family:sans-serif;font-size:11px"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{y}" style="{style}">'
        f'<rect width="100%" height="100%" fill="white"/>{"".join(parts)}{_axis(seconds, scale, y - 20)}</svg>\n'
    )


def _plot(name: str, values: dict[int, float] | dict[int, int], y: float, scale: float, colour: str) -> list[str]:
    most = max([*values.values(), 1e-9])
    parts = [
        f'<text x="10" y="{y + 10}">{escape(name)}</text>',
        f'<text x="{_LEFT - 8}" y="{y + 10}" text-anchor="end">{most:.3g}</text>',
        f'<text x="{_LEFT - 8}" y="{y + _PLOT}" text-anchor="end">0</text>',
        f'<line x1="{_LEFT}" y1="{y + _PLOT}" x2="{_WIDTH - 20}" y2="{y + _PLOT}" stroke="#999"/>',
    ]
    for second, value in values.items():
        tall = _PLOT * value / most
        parts.append(
            f'<rect x="{_LEFT + second * scale:.1f}" y="{y + _PLOT - tall:.1f}" width="{max(1.0, scale * 0.9):.1f}"'
            f' height="{tall:.1f}" fill="{colour}"/>'
        )
    return parts


def _axis(seconds: int, scale: float, y: float) -> str:
    step = max(1, round(seconds / 10))
    return "".join(
        f'<text x="{_LEFT + at * scale:.1f}" y="{y}" text-anchor="middle">{at} s</text>'
        for at in range(0, seconds + 1, step)
    )
