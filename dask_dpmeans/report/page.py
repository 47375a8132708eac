"""The parts of a page, a card for each cluster among them, and their HTML."""

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from jinja2 import Environment, StrictUndefined

from dask_dpmeans.checks import format_share
from dask_dpmeans.figures import plot
from dask_dpmeans.figures.data import Feature, Overview, Part, Portrait
from dask_dpmeans.figures.plot.canvas import shortened
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.report.live_panels import live
from dask_dpmeans.report.sentences import number

WIDEST = 4.0
"""Score, in standard deviations, at which bars end."""
NAMED = 2
"""Features in the words of a card; all have bars."""
LONGEST = 80
"""Longest name in full, in characters."""


class Bars(NamedTuple):
    """A feature of a card."""

    name: str
    score: str
    mean: str
    low: str
    high: str
    left: float
    width: float
    """Position of the bar of the score in its row, in percent."""
    bins: int
    own: str
    overall: str
    """Outlines of the histograms as SVG paths, on `bins` x 1."""


class Card(NamedTuple):
    """A cluster with its color, and what the page cannot say of its portrait itself."""

    portrait: Portrait
    color: str
    words: str
    """The features or columns in which it differs most, in one line."""
    bars: list[Bars]


def cards(overview: Overview) -> list[Card]:
    """Return a card for each cluster, the heaviest first."""
    colors = plot.cluster_colors(np.arange(len(overview.clusters)))  # as in pictures
    codes = ["#" + bytes(each).hex() for each in np.rint(colors[:, :3] * 255).astype(np.uint8)]
    return [
        Card(each, code, _words(each), [_bars(feature) for feature in each.features])
        for each, code in zip(overview.clusters, codes, strict=True)
    ]


def short(name: str) -> str:
    """Return a name, without its middle if it is long."""
    return shortened(name, LONGEST)


def mean(part: Part, value: float) -> str:
    """Return the mean of a column of numbers, or the share of a category, as text."""
    return format_share(value) if part.label else number(value)


def _words(portrait: Portrait) -> str:
    scores = [f"{short(each.name)} {each.score:+z.1f} sd" for each in portrait.features[:NAMED]]
    firsts = [(each.name, each.parts[0]) for each in portrait.columns if each.parts][:NAMED]
    means = [(short(name), short(part.label), mean(part, part.own)) for name, part in firsts]
    return ", ".join([*scores, *(" ".join(filter(None, each)) for each in means)])


def _bars(feature: Feature) -> Bars:
    end = max(-WIDEST, min(WIDEST, feature.score))
    own, overall = _shares(feature.counts), _shares(feature.overall)
    top = max(own.max(initial=0.0), overall.max(initial=0.0))
    return Bars(
        name=short(feature.name),
        score=f"{feature.score:+z.1f} sd",
        mean=number(feature.mean),
        low=number(feature.low),
        high=number(feature.high),
        left=50 + 50 * min(end, 0.0) / WIDEST,
        width=50 * abs(end) / WIDEST,
        bins=len(own),
        own=_outline(own, top),
        overall=_outline(overall, top),
    )


def _shares(counts: Float64Array) -> Float64Array:
    total = float(counts.sum())
    return counts / total if total > 0 else np.zeros(len(counts))


def _outline(shares: Float64Array, top: float) -> str:
    """Return the outline of a histogram of heights up to 1 as an SVG path; y points down."""
    heights = 1 - shares / (top if top > 0 else 1.0)
    steps = "".join(f"V{height:.3g}H{bin + 1}" for bin, height in enumerate(heights.tolist()))
    return f"M0 1{steps}V1Z"


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
    environment.filters |= {"number": number, "share": format_share, "short": short}
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
        mean=mean,
        cards=[] if page.overview is None else cards(page.overview),
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
