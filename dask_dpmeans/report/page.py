"""The parts of a page, and their HTML."""

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from dask_dpmeans.checks import format_share
from dask_dpmeans.figures import plot
from dask_dpmeans.figures.data import Overview
from dask_dpmeans.report import cards
from dask_dpmeans.report.live_panels import live
from dask_dpmeans.report.sentences import number

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
    def of(
        cls, title: str, caption: str, draw: Callable[[], plot.AnyFigure], *, dots: bool = False
    ) -> "Picture":
        """Return a picture with its drawing as a data URI: SVG, or PNG if most of it is dots."""
        if dots:
            return cls(title, caption, data_uri("image/png", plot.png(draw())))
        return cls(title, caption, data_uri("image/svg+xml", plot.svg(draw()).encode()))


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


@dataclass(frozen=True, kw_only=True)
class Page:
    """The contents of a page."""

    store: str
    """Path or URL of the store that the page describes."""
    headline: str
    warnings: list[str] = field(default_factory=list)
    """What a reader should act on."""
    first: list[Section] = field(default_factory=list)
    """Sections before the facts."""
    facts: dict[str, dict[str, str]] = field(default_factory=dict)
    """Names and values, under a few titles."""
    pictures: list[Picture] = field(default_factory=list)
    tables: list[Table]
    call: str
    """Python code that makes the store again."""
    unknown: str | None = None
    """Explanation of the names in the code that stand for data without a path."""
    command: str | None
    """Command that makes the store again; None if no command can."""
    versions: dict[str, str]
    sentence: str = ""
    """What was found, as a person would say it."""
    overview: Overview | None = None
    """Clusters with portraits, and the numbers of the maps."""
    images: dict[int, str] = field(default_factory=dict)
    """The centers of clusters as images, data URIs; may be empty."""
    grid: Picture | None = None
    """The samples of a cube on their grid."""
    maps: list[Picture] = field(default_factory=list)
    """Rows in colors, the best first."""
    sizes: Picture | None = None
    left_out: str = ""
    """Which clusters have no cards."""
    unit: str = "rows"
    """Unit of the weights of clusters."""
    notes: list[str] = field(default_factory=list)
    """Facts worth knowing, on which nobody needs to act."""


def html(page: Page) -> str:
    """Return the page as HTML; all text is escaped."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"number": number, "share": format_share, "short": cards.short}
    scripts, panels = [_part("page.js")], None
    if page.overview is not None:
        panels = live(page.overview)
    if panels is not None:
        scripts.insert(0, panels.library)
    return environment.from_string(_part("page.html")).render(
        page=page,
        generator=GENERATOR,
        style=_part("page.css"),
        scripts=scripts,
        policy=_policy(scripts),
        panels=panels,
        mean=cards.mean,
        cards=[] if page.overview is None else cards.cards(page.overview),
    )


def _part(name: str) -> str:
    return files("dask_dpmeans.report").joinpath(name).read_text(encoding="utf-8")


def _policy(scripts: list[str]) -> str:
    """Return a Content-Security-Policy that lets these scripts run, and nothing load."""
    digests = [hashlib.sha256(script.encode()).digest() for script in scripts]
    hashes = " ".join(f"'sha256-{base64.b64encode(each).decode()}'" for each in digests)
    return (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; "
        f"form-action 'none'; script-src {hashes}"
    )


def data_uri(kind: str, content: bytes) -> str:
    """Return a file of some media type as a URI that holds it."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def lines_of(columns: list[list[str]], most: int | None = None) -> list[list[str]]:
    """Return the first lines of a table with these columns."""
    return [list(line) for line in zip(*(column[:most] for column in columns), strict=True)]
