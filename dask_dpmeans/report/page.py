"""A page: what it is made of, and how it becomes HTML."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from dask_dpmeans.figures import plot

GENERATOR = '<meta name="generator" content="dask-dpmeans report">'
"""By which a page of ours is known."""


@dataclass(frozen=True)
class Picture:
    """A drawing and what it shows."""

    title: str
    caption: str
    """A sentence, which also stands for the picture where that is not seen."""
    source: str | None
    """A data URI; None where there is nothing to see but the caption, which says why."""

    @classmethod
    def of(cls, title: str, caption: str, draw: Callable[[], plot.AnyFigure]) -> "Picture":
        """A drawing as a data URI."""
        encoded = base64.b64encode(plot.svg(draw()).encode()).decode()
        return cls(title, caption, f"data:image/svg+xml;base64,{encoded}")


@dataclass(frozen=True)
class Table:
    """Lines of figures, the first of each its name."""

    title: str
    caption: str
    columns: list[str]
    lines: list[list[str]]


@dataclass(frozen=True)
class Page:
    """All that a page says."""

    store: str
    """Where what it is about is."""
    headline: str
    warnings: list[str]
    facts: dict[str, dict[str, str]]
    """By name, under a few titles."""
    pictures: list[Picture]
    tables: list[Table]
    call: str
    """Python that makes it again."""
    unknown: str | None
    """What the names in it are that have no path."""
    command: str | None
    """The command that does; None where a command cannot."""
    versions: dict[str, str]


def html(page: Page) -> str:
    """The page; all that comes from a store is escaped."""
    template = files("dask_dpmeans.report").joinpath("page.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(page=page, generator=GENERATOR)


def lines_of(parts: list[list[str]], most: int | None = None) -> list[list[str]]:
    """The lines of a table, of its columns; the first ones of many."""
    return [list(line) for line in zip(*(part[:most] for part in parts), strict=True)]
