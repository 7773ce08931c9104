# SPDX-License-Identifier: Apache-2.0
"""Charts as SVG, without other libraries. Colours are classes, so that a page's style sheet can turn them dark."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

from results import FAMILIES, OTHER, OURS, Family

Format = Callable[[float], str]

FONT_SIZE = 11
# Of one character of the font; text is not measured where SVG is written without a browser.
CHARACTER = 6.3


def style_sheet() -> str:
    """The rules that the charts' classes need, light and dark."""

    def rules(colour: Callable[[Family], str], text: str, faint: str, grid: str, ground: str) -> list[str]:
        lines = [f".m-{f.key}{{fill:{colour(f)}}}.l-{f.key}{{stroke:{colour(f)}}}" for f in (*FAMILIES, OTHER)]
        return lines + [
            f".t{{fill:{text}}}.faint{{fill:{faint}}}.grid{{stroke:{grid}}}.axis{{stroke:{faint}}}.mark{{stroke:{ground}}}",
            f".ground{{fill:{ground}}}",
        ]

    light = rules(lambda family: family.light, "#1b1b1b", "#5c5c5c", "#e2e2e2", "#ffffff")
    dark = rules(lambda family: family.dark, "#e8e8e8", "#a8a8a8", "#3a3a3a", "#16181c")
    return "\n".join(
        [
            f".chart{{font:{FONT_SIZE}px system-ui,'DejaVu Sans',sans-serif}}",
            ".chart .strong{font-weight:600}.chart .end{text-anchor:end}.chart .middle{text-anchor:middle}",
            ".chart .line{fill:none;stroke-width:1.6}.chart .ours{stroke-width:2.6}.chart .mark{stroke-width:.8}",
            ".chart .inside{opacity:.45}",
            *light,
            # Not on paper: it stays white.
            "@media screen and (prefers-color-scheme:dark){",
            *dark,
            "}",
        ]
    )


class Svg:
    """A drawing: its elements in the order of painting."""

    def __init__(self, width: float, height: float, label: str) -> None:
        self.width, self.height, self.label = width, height, label
        self.elements: list[str] = []

    def text(self, x: float, y: float, text: str, classes: str = "t", title: str = "", transform: str = "") -> None:
        turned = f' transform="{transform}"' if transform else ""
        hint = f"<title>{escape(title)}</title>" if title else ""
        self.elements.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{classes}"{turned}>{escape(text)}{hint}</text>')

    def line(self, x1: float, y1: float, x2: float, y2: float, classes: str = "grid", dash: str = "") -> None:
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.elements.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{classes}"{dashed}/>'
        )

    def bar(self, x: float, y: float, width: float, height: float, classes: str, title: str) -> None:
        self.elements.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" height="{height:.1f}" class="{classes}">'
            f"<title>{escape(title)}</title></rect>"
        )

    def polyline(self, points: Iterable[tuple[float, float]], classes: str) -> None:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.elements.append(f'<polyline points="{path}" class="{classes}"/>')

    def marker(self, family: Family, x: float, y: float, title: str = "", radius: float | None = None) -> None:
        radius = radius or (5 if family.key == OURS else 4.4)
        hint = f"<title>{escape(title)}</title>" if title else ""
        classes = f"mark m-{family.key}"
        if family.marker == "circle":
            self.elements.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" class="{classes}">{hint}</circle>')
            return
        points = " ".join(f"{x + radius * dx:.1f},{y + radius * dy:.1f}" for dx, dy in _SHAPES[family.marker])
        self.elements.append(f'<polygon points="{points}" class="{classes}">{hint}</polygon>')

    def render(self, head: str = "") -> str:
        """The element; `head` comes first in it."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" aria-label="{escape(self.label)}" '
            f'width="{self.width:.0f}" height="{self.height:.0f}" viewBox="0 0 {self.width:.0f} {self.height:.0f}">'
            f"{head}{''.join(self.elements)}</svg>"
        )


def _star(corners: int, inner: float, turn: float = -math.pi / 2) -> list[tuple[float, float]]:
    angles = [turn + math.pi * i / corners for i in range(2 * corners)]
    return [
        ((1.15 if i % 2 == 0 else inner) * math.cos(a), (1.15 if i % 2 == 0 else inner) * math.sin(a))
        for i, a in enumerate(angles)
    ]


_PLUS = [
    (-0.35, -1.1), (0.35, -1.1), (0.35, -0.35), (1.1, -0.35), (1.1, 0.35), (0.35, 0.35),
    (0.35, 1.1), (-0.35, 1.1), (-0.35, 0.35), (-1.1, 0.35), (-1.1, -0.35), (-0.35, -0.35),
]  # fmt: skip
_TURN = math.sqrt(0.5)
_SHAPES: dict[str, list[tuple[float, float]]] = {
    "square": [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
    "diamond": [(0, -1.25), (1.1, 0), (0, 1.25), (-1.1, 0)],
    "up": [(0, -1.1), (1.1, 0.9), (-1.1, 0.9)],
    "down": [(0, 1.1), (1.1, -0.9), (-1.1, -0.9)],
    "plus": _PLUS,
    "cross": [((x - y) * _TURN, (x + y) * _TURN) for x, y in _PLUS],
    "hexagon": [(1.1 * math.cos(math.pi * i / 3), 1.1 * math.sin(math.pi * i / 3)) for i in range(6)],
    "pentagon": [(1.1 * math.sin(math.tau * i / 5), -1.1 * math.cos(math.tau * i / 5)) for i in range(5)],
    "bowtie": [(-1.1, -1), (0, -0.2), (1.1, -1), (1.1, 1), (0, 0.2), (-1.1, 1)],
    "bar": [(-0.4, -1.2), (0.4, -1.2), (0.4, 1.2), (-0.4, 1.2)],
    "star": _star(5, 0.5),
}


@dataclass
class LogAxis:
    """Maps positive values to pixels, and knows where ticks go."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def around(cls, values: Iterable[float], start: float, end: float, margin: float = 1.2) -> LogAxis:
        values = [value for value in values if value > 0] or [1.0]
        return cls(min(values) / margin, max(values) * margin, start, end)

    def __call__(self, value: float) -> float:
        part = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + part * (self.end - self.start)

    def ticks(self, room: float) -> list[float]:
        """Round values, `room` pixels apart at least."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        most = max(2, int(abs(self.end - self.start) / room))
        for factors, step in (((1, 2, 5), 1), ((1, 3), 1), ((1,), 1), ((1,), 2), ((1,), 3), ((1,), 4)):
            ticks = [f * 10.0**e for e in range(first, last + 1) if e % step == 0 for f in factors]
            ticks = [tick for tick in ticks if self.low <= tick <= self.high]
            gaps = [abs(self(b) - self(a)) for a, b in itertools.pairwise(ticks)]
            if len(ticks) <= most and min(gaps, default=room) >= room * 0.8:
                return ticks
        return []


@dataclass
class Series:
    """The points of one family: x (a value, or the number of a category), y and what a tooltip says."""

    family: Family
    points: list[tuple[float, float, str]] = field(default_factory=list)


def _frame(title: str, y_label: str) -> tuple[Svg, float, float, float, float]:
    svg = Svg(552, 300, title)
    left, right, top, bottom = 66.0, 540.0, 34.0, 256.0
    svg.text(left, 16, title, "t strong")
    svg.text(12, (top + bottom) / 2, y_label, "faint middle", transform=f"rotate(-90 12 {(top + bottom) / 2:.1f})")
    return svg, left, right, top, bottom


def _draw_series(svg: Svg, series: Sequence[Series], x: Callable[[float], float], y: LogAxis, joined: bool) -> None:
    # Ours last, so that it lies on top.
    for one in sorted(series, key=lambda s: s.family.key == OURS):
        ours = one.family.key == OURS
        if len(one.points) > 1 and (joined or ours):
            line = f"line l-{one.family.key}" + (" ours" if ours else "")
            svg.polyline([(x(px), y(py)) for px, py, _ in one.points], line)
        for px, py, title in one.points:
            svg.marker(one.family, x(px), y(py), title)


def _y_ticks(svg: Svg, y: LogAxis, left: float, right: float, format_y: Format) -> None:
    for tick in y.ticks(room=22):
        svg.line(left, y(tick), right, y(tick))
        svg.text(left - 6, y(tick) + 4, format_y(tick), "faint end")


def log_log(
    title: str, series: Sequence[Series], x_label: str, format_x: Format, y_label: str, format_y: Format
) -> str:
    """Lines over two logarithmic axes."""
    svg, left, right, top, bottom = _frame(title, y_label)
    x = LogAxis.around((p[0] for s in series for p in s.points), left, right)
    y = LogAxis.around((p[1] for s in series for p in s.points), bottom, top, margin=1.4)
    _y_ticks(svg, y, left, right, format_y)
    for tick in x.ticks(room=44):
        svg.line(x(tick), top, x(tick), bottom)
        svg.text(x(tick), bottom + 16, format_x(tick), "faint middle")
    svg.line(left, bottom, right, bottom, "axis")
    svg.text((left + right) / 2, bottom + 36, x_label, "faint middle")
    _draw_series(svg, series, x, y, joined=True)
    return svg.render()


def categories(
    title: str, names: Sequence[str], series: Sequence[Series], x_label: str, y_label: str, format_y: Format
) -> str:
    """Points over named places and a logarithmic axis; ours are joined, for how level they are is the question."""
    svg, left, right, top, bottom = _frame(title, y_label)
    width = (right - left) / len(names)
    y = LogAxis.around((p[1] for s in series for p in s.points), bottom, top, margin=1.4)
    _y_ticks(svg, y, left, right, format_y)

    def x(place: float) -> float:
        return left + width * (place + 0.5)

    slanted = max(map(len, names)) * CHARACTER > width - 4
    for place, name in enumerate(names):
        if slanted:
            svg.text(
                x(place), bottom + 13, name, "faint end", transform=f"rotate(-25 {x(place):.1f} {bottom + 13:.1f})"
            )
        else:
            svg.text(x(place), bottom + 16, name, "faint middle")
    svg.line(left, bottom, right, bottom, "axis")
    svg.text((left + right) / 2, bottom + (42 if slanted else 36), x_label, "faint middle")
    _draw_series(svg, series, x, y, joined=False)
    return svg.render()


@dataclass
class Bar:
    """A bar with its name to the left and its value to the right."""

    name: str
    value: float
    text: str
    title: str
    family: Family
    pale: bool = False


def fraction_bars(title: str, bars: Sequence[Bar], width: float = 1120) -> str:
    """Parts of a roof: a line stands at 100 %. What is far beyond it is cut, and its text tells the value."""
    row, top = 18, 42
    left = min(max((len(bar.name) for bar in bars), default=0) * CHARACTER + 18, width * 0.45)
    right = width - 52
    most = min(max([1.0, *(bar.value for bar in bars)]), 1.6)
    svg = Svg(width, top + row * len(bars) + 12, title)
    svg.text(0, 14, title, "t strong")

    def x(value: float) -> float:
        return left + (right - left) * min(value, most) / most

    bottom = top + row * len(bars) + 2
    for tick in (0, 0.25, 0.5, 0.75, 1, 1.25, 1.5):
        if tick <= most:
            svg.line(
                x(tick), top - 6, x(tick), bottom, "axis" if tick in (0, 1) else "grid", "4 3" if tick == 1 else ""
            )
            svg.text(x(tick), top - 11, f"{tick * 100:.0f} %", "faint middle")
    for place, bar in enumerate(bars):
        y = top + row * place
        svg.text(left - 8, y + 11, bar.name, "t end", bar.title)
        svg.bar(
            x(0),
            y + 2,
            x(bar.value) - x(0),
            row - 5,
            f"m-{bar.family.key}" + (" inside" if bar.pale else ""),
            bar.title,
        )
        svg.text(width - 4, y + 11, bar.text, "t end", bar.title)
    return svg.render()


def ratio_bars(title: str, groups: Sequence[tuple[str, Sequence[Bar]]], width: float = 1120) -> str:
    """Bars from 1 over a logarithmic axis, to the left where the value is less; a group for each workload."""
    row, head, gap, top = 15, 18, 6, 42
    every = [bar for _, bars in groups for bar in bars]
    left = min(max((len(bar.name) for bar in every), default=0) * CHARACTER + 26, width * 0.4)
    right = width - 64
    height = top + sum(head + row * len(bars) + gap for _, bars in groups) + 6
    svg = Svg(width, height, title)
    svg.text(0, 14, title, "t strong")
    axis = LogAxis.around([1.0, *(bar.value for bar in every)], left, right, margin=1.15)
    if min((bar.value for bar in every), default=1) < 1:
        axis.low /= 1.25  # room for the text to the left of the shortest bar
    ticks = axis.ticks(room=46)
    if 1.0 not in ticks:
        ticks = sorted([1.0, *(tick for tick in ticks if abs(axis(tick) - axis(1)) > 36)])
    y = float(top)
    for name, bars in groups:
        first = y + head
        svg.text(0, y + 13, name, "t strong")
        last = first + row * len(bars)
        for tick in ticks:
            svg.line(axis(tick), first - 1, axis(tick), last + 1, "axis" if tick == 1 else "grid")
        for bar in bars:
            svg.text(left - 8, y + head + 11, bar.name, "t end", bar.title)
            from_x, to_x = sorted((axis(1), axis(bar.value)))
            classes = f"m-{bar.family.key}" + (" inside" if bar.pale else "")
            svg.bar(from_x, y + head + 2, to_x - from_x, row - 4, classes, bar.title)
            if bar.value >= 1:
                svg.text(to_x + 5, y + head + 11, bar.text, "t", bar.title)
            else:
                svg.text(from_x - 5, y + head + 11, bar.text, "t end", bar.title)
            y += row
        y += head + gap
    for tick in ticks:
        svg.text(axis(tick), top - 11, f"{tick:g}\u00d7", "faint middle")
    return svg.render()


def legend(families: Sequence[Family], width: float = 1120) -> str:
    """One or more lines of markers and names."""
    row = 20
    places: list[tuple[float, float, Family]] = []
    x = y = 0.0
    for family in families:
        needed = 30 + len(family.name) * (CHARACTER + 0.4)
        if x and x + needed > width:
            x, y = 0.0, y + row
        places.append((x, y, family))
        x += needed
    svg = Svg(width, y + row, "legend: " + ", ".join(family.name for family in families))
    draw_legend(svg, places)
    return svg.render()


def draw_legend(svg: Svg, places: Iterable[tuple[float, float, Family]]) -> None:
    for x, y, family in places:
        svg.marker(family, x + 8, y + 10, radius=5)
        svg.text(x + 18, y + 14, family.name, "t")
