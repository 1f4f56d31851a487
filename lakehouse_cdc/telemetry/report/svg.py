"""Charts as inline SVG: lines, stacked columns and marks over one time axis, coloured by the page's style sheet.

A shape's title is what a browser shows beside the pointer. All text is escaped here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from html import escape

_WIDTH, _HEIGHT = 960, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 8, 12, 24
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 172800, 604800)
Format = Callable[[float], str]


@dataclass(frozen=True)
class Line:
    """A series: parts that are not connected, of (time, value)."""

    name: str
    style: str
    parts: Sequence[Sequence[tuple[float, float]]]


@dataclass(frozen=True)
class Columns:
    """Stacked columns: for each (from, to) in time the values of the names, which have those styles."""

    names: Sequence[str]
    styles: Sequence[str]
    spans: Sequence[tuple[float, float]]
    values: Sequence[Sequence[float]]


@dataclass(frozen=True)
class Mark:
    """A moment, such as of a statement."""

    at: float
    style: str
    title: str


@dataclass(frozen=True)
class Chart:
    """What is drawn into one frame from `since` to `until`."""

    label: str
    since: float
    until: float
    show: Format
    lines: Sequence[Line] = ()
    columns: Columns | None = None
    marks: Sequence[Mark] = field(default=())

    def svg(self) -> str:
        """The chart, and nothing around it."""
        top = _rounded_up(max([self._most(), 1e-9]))
        body = [*self._grid(top), *self._bars(top), *self._paths(top), *self._moments()]
        return (
            f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(self.label)}">{"".join(body)}</svg>'
        )

    def _most(self) -> float:
        values = [value for line in self.lines for part in line.parts for _, value in part]
        values += [sum(of) for of in self.columns.values] if self.columns is not None else []
        return max(values, default=0.0)

    def _x(self, at: float) -> float:
        span = max(self.until - self.since, 1e-9)
        return _LEFT + (at - self.since) / span * (_WIDTH - _LEFT - _RIGHT)

    @staticmethod
    def _y(value: float, top: float) -> float:
        return _HEIGHT - _BOTTOM - min(value / top, 1.0) * (_HEIGHT - _TOP - _BOTTOM)

    def _grid(self, top: float) -> Iterator[str]:
        for part in (0.0, 0.5, 1.0):
            y = self._y(part * top, top)
            yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            text = escape(self.show(part * top))
            yield f'<text class="tick" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
        for at, text in times(self.since, self.until):
            x, foot = self._x(at), _HEIGHT - _BOTTOM
            yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{foot}" y2="{foot + 4}"/>'
            yield f'<text class="tick" x="{x:.1f}" y="{_HEIGHT - 6}" text-anchor="middle">{escape(text)}</text>'

    def _bars(self, top: float) -> Iterator[str]:
        if self.columns is None:
            return
        for (since, until), values in zip(self.columns.spans, self.columns.values, strict=True):
            if not sum(values):
                continue
            x, width, below = self._x(since), max(self._x(until) - self._x(since) - 0.6, 0.6), 0.0
            shown = ", ".join(f"{name} {self.show(v)}" for name, v in zip(self.columns.names, values, strict=True) if v)
            yield f"<g><title>{escape(f'{moment(since)}: {shown}')}</title>"
            for style, value in zip(self.columns.styles, values, strict=True):
                if value:
                    low, high = self._y(below, top), self._y(below + value, top)
                    yield (
                        f'<rect class="{style}" x="{x:.1f}" y="{high:.1f}" width="{width:.1f}"'
                        f' height="{max(low - high, 0.5):.1f}"/>'
                    )
                    below += value
            yield "</g>"

    def _paths(self, top: float) -> Iterator[str]:
        for line in self.lines:
            for part in line.parts:
                points = [(self._x(at), self._y(value, top)) for at, value in part]
                path = " ".join(f"{'L' if i else 'M'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(points))
                yield f'<path class="line {line.style}" d="{path}"/>'
            for at, value in (one for part in line.parts for one in part):
                said = escape(f"{moment(at)}: {line.name} {self.show(value)}")
                x, y = self._x(at), self._y(value, top)
                radius = 2.2 if sum(map(len, line.parts)) < 60 else 1.2
                yield f'<circle class="dot {line.style}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}">'
                yield f"<title>{said}</title></circle>"

    def _moments(self) -> Iterator[str]:
        for mark in self.marks:
            if self.since <= mark.at <= self.until:
                x = self._x(mark.at)
                yield (
                    f'<g class="mark {mark.style}"><title>{escape(mark.title)}</title><line x1="{x:.1f}" x2="{x:.1f}"'
                    f' y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/><path d="M{x - 4:.1f} {_TOP - 8} h8 l-4 8 z"/></g>'
                )


def times(since: float, until: float) -> list[tuple[float, str]]:
    """Round times in between, about eight, with their texts in UTC."""
    span = max(until - since, 1.0)
    step = next((one for one in _STEPS if span / one <= 8), math.ceil(span / 8 / _STEPS[-1]) * _STEPS[-1])
    form = "%Y-%m-%d" if step >= 86400 else "%m-%d %H:%M" if span > 86400 else "%H:%M" if step >= 60 else "%H:%M:%S"
    first = math.ceil(since / step) * step
    edge = span * 0.03  # a text at the very edge would be cut off
    ticks = [first + i * step for i in range(int((until - first) // step) + 1)]
    return [(at, f"{_utc(at):{form}}") for at in ticks if since + edge / 2 <= at <= until - edge]


def _utc(at: float) -> datetime:
    return datetime.fromtimestamp(at, timezone.utc)


def moment(at: float) -> str:
    """A time as people read it, in UTC."""
    return f"{_utc(at):%Y-%m-%d %H:%M:%S}"


def _rounded_up(value: float) -> float:
    """A round number, such as 2, 30 or 1,500: the top of an axis."""
    size = 10.0 ** math.floor(math.log10(value))
    return next(step * size for step in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if value <= step * size * (1 + 1e-9))
