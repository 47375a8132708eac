"""The parts of a page, and their HTML."""

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from dask_dpmeans.figures import plot
from dask_dpmeans.figures.data import Overview

GENERATOR = '<meta name="generator" content="dask-dpmeans report">'
"""Mark of a page that this package wrote."""


@dataclass(frozen=True)
class Picture:
    """A drawing with a caption."""

    title: str
    caption: str
    """A sentence; it is also the alternative text of the picture."""
    source: str | None
    """A data URI; None if there is no drawing, and the caption says why."""

    @classmethod
    def of(cls, title: str, caption: str, draw: Callable[[], plot.AnyFigure]) -> "Picture":
        """Return a picture with its drawing as a data URI."""
        encoded = base64.b64encode(plot.svg(draw()).encode()).decode()
        return cls(title, caption, f"data:image/svg+xml;base64,{encoded}")


@dataclass(frozen=True)
class Table:
    """Lines of text; the first text of each line is its name."""

    title: str
    caption: str
    columns: list[str]
    lines: list[list[str]]


@dataclass(frozen=True)
class Section:
    """A part of a page with a text of its own."""

    title: str
    text: str
    table: Table
    code: str
    """Commands or calls, one a line, that fit the other alternatives; may be empty."""
    picture: Picture | None = None


@dataclass(frozen=True)
class Page:
    """The contents of a page."""

    store: str
    """Path or URL of the store that the page describes."""
    headline: str
    warnings: list[str]
    """What a reader should act on."""
    first: list[Section]
    """Sections before the facts."""
    facts: dict[str, dict[str, str]]
    """Names and values, under a few titles."""
    pictures: list[Picture]
    tables: list[Table]
    call: str
    """Python code that makes the store again."""
    unknown: str | None
    """Explanation of the names in the code that stand for data without a path."""
    command: str | None
    """Command that makes the store again; None if no command can."""
    versions: dict[str, str]
    sentence: str = ""
    """What was found, as a person would say it."""
    overview: Overview | None = None
    """Clusters with portraits, and the numbers of the maps."""
    maps: list[Picture] = field(default_factory=list)
    """Rows in colors, the best first."""
    sizes: Picture | None = None
    notes: list[str] = field(default_factory=list)
    """Facts worth knowing, on which nobody needs to act."""


def html(page: Page) -> str:
    """Return the page as HTML; all text is escaped."""
    template = files("dask_dpmeans.report").joinpath("page.html").read_text(encoding="utf-8")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(template).render(page=page, generator=GENERATOR)


def lines_of(columns: list[list[str]], most: int | None = None) -> list[list[str]]:
    """Return the first lines of a table with these columns."""
    return [list(line) for line in zip(*(column[:most] for column in columns), strict=True)]
