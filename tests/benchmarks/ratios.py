"""Competitors timed in turn, so that what else a machine does hits all of them, and the table of their ratios."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import quantiles
from time import perf_counter
from typing import Any

Times = Mapping[str, Sequence[float]]
"""Seconds of each competitor, one for each round."""


@dataclass(frozen=True)
class Line:
    """A line of a table."""

    what: str
    value: str
    target: str = ""
    """What the value has to be."""
    verdict: str = ""
    """Whether it is."""


@contextmanager
def same_environment() -> Iterator[None]:
    """Leave the environment as it was.

    Dask puts what it starts its workers with into that of this process, and there it stays.  Competitors that start
    later would inherit it: with Dask's `MALLOC_TRIM_THRESHOLD_`, reading a store takes more than twice as long.
    """
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def timed(
    function: Callable[[], Any], clock: Callable[[], float] = perf_counter
) -> Callable[[], float]:
    """What `function` takes, in seconds of a clock, each time that it is called."""

    def seconds() -> float:
        started = clock()
        function()
        return clock() - started

    return seconds


def interleaved(competitors: Mapping[str, Callable[[], float]], repeats: int) -> Times:
    """The seconds that each competitor reports, in rounds of one call each; a first round warms up, uncounted."""
    for competitor in competitors.values():
        competitor()
    rounds = [
        {name: competitor() for name, competitor in competitors.items()} for _ in range(repeats)
    ]
    return {name: [each[name] for each in rounds] for name in competitors}


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """The lower quartile, the median and the upper quartile.

    >>> quartiles([1.0, 2.0, 4.0])
    (1.5, 2.0, 3.0)
    """
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return low, middle, high


def seconds_line(times: Times, name: str) -> Line:
    """The median time of a competitor."""
    return Line(name, f"{quartiles(times[name])[1]:.4f} s")


def ratio_line(
    times: Times, above: str, below: str, *, most: float | None = None, least: float | None = None
) -> Line:
    """The median over the rounds of one competitor's time over another's, and its quartiles."""
    values = [upper / lower for upper, lower in zip(times[above], times[below], strict=True)]
    low, middle, high = quartiles(values)
    return judged(
        f"{above} / {below}",
        middle,
        f"{middle:.2f} ({low:.2f} to {high:.2f})",
        most=most,
        least=least,
    )


def judged(
    what: str, value: float, text: str, *, most: float | None = None, least: float | None = None
) -> Line:
    """A line that says whether a value is as it has to be."""
    if most is not None:
        return Line(what, text, f"at most {most:g}", "met" if value <= most else "missed")
    if least is not None:
        return Line(what, text, f"at least {least:g}", "met" if value >= least else "missed")
    return Line(what, text)


def table(title: str, lines: Sequence[Line]) -> str:
    """A title, and the lines below it in columns.

    >>> print(table("One", [judged("a / b", 1.5, "1.50", most=1.6), Line("a", "0.1 s")]))
    One
      a / b  1.50   at most 1.6  met
      a      0.1 s
    """
    rows = [(line.what, line.value, line.target, line.verdict) for line in lines]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join([title, *(f"  {row}".rstrip() for row in padded)])
