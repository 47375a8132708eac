"""The clusters of a page: a card each, in words, with small bars and histograms."""

from typing import NamedTuple

import numpy as np

from dask_dpmeans.checks import format_share
from dask_dpmeans.figures import plot
from dask_dpmeans.figures.data import Exemplar, Feature, Neighbor, Overview, Part, Portrait
from dask_dpmeans.figures.plot.canvas import shortened
from dask_dpmeans.kernels.block import Float64Array
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


class Line(NamedTuple):
    """The mean of a column, or the share of a category, with its bar."""

    label: str
    own: str
    overall: str
    share: float | None
    """Share of the category among all rows, in percent; None for numbers."""
    left: float
    width: float
    """Position of the bar in its row, in percent."""


class Card(NamedTuple):
    """A cluster as text."""

    portrait: Portrait
    color: str
    rows: str
    share: str
    radius: str
    stability: str
    doubt: str
    words: str
    bars: list[Bars]
    columns: list[tuple[str, list[Line]]]
    """Names of columns with divergences of their own, and their lines."""
    neighbors: list[tuple[int, str]]
    """Clusters, and what is said of each."""
    nearest: str
    farthest: str


def cards(overview: Overview) -> list[Card]:
    """Return a card for each cluster, the heaviest first."""
    colors = plot.cluster_colors(np.arange(len(overview.clusters)))  # as in pictures
    codes = ["#" + bytes(each).hex() for each in np.rint(colors[:, :3] * 255).astype(np.uint8)]
    away = "+{} a row" if overview.divergences else "distance {}"
    pairs = zip(overview.clusters, codes, strict=True)
    return [_card(each, color, away) for each, color in pairs]


def _card(portrait: Portrait, color: str, away: str) -> Card:
    """Return the card of one cluster; `away` says how far its neighbors are."""
    foremost = portrait.features[:NAMED]
    scores = [f"{shortened(each.name, LONGEST)} {each.score:+z.1f} sd" for each in foremost]
    columns = [
        (shortened(each.name, LONGEST), [_line(part) for part in each.parts])
        for each in portrait.columns
    ]
    means = [" ".join(filter(None, (name, *lines[0][:2]))) for name, lines in columns if lines]
    return Card(
        portrait=portrait,
        color=color,
        rows=number(portrait.weight),
        share=format_share(portrait.share),
        radius=number(portrait.radius),
        stability="" if portrait.stability is None else f"{portrait.stability:.2f}",
        doubt="" if portrait.doubt is None else format_share(portrait.doubt),
        words=", ".join(scores + means[:NAMED]),
        bars=[_bars(each) for each in portrait.features],
        columns=columns,
        neighbors=[(each.cluster, _neighbor(each, away)) for each in portrait.neighbors],
        nearest=_exemplars(portrait.nearest),
        farthest=_exemplars(portrait.farthest),
    )


def _bars(feature: Feature) -> Bars:
    """Return a feature with its bar and histograms."""
    end = max(-WIDEST, min(WIDEST, feature.score))
    own, overall = _shares(feature.counts), _shares(feature.overall)
    top = max(own.max(initial=0.0), overall.max(initial=0.0))
    return Bars(
        name=shortened(feature.name, LONGEST),
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


def _line(part: Part) -> Line:
    """Return a mean or a share as text, with its bar."""
    place = 100 * part.left, 100 * part.width
    if not part.label:
        return Line("", number(part.own), number(part.overall), None, *place)
    own, overall = format_share(part.own), format_share(part.overall)
    return Line(shortened(part.label, LONGEST), own, overall, 100 * part.overall, *place)


def _shares(counts: Float64Array) -> Float64Array:
    total = float(counts.sum())
    return counts / total if total > 0 else np.zeros(len(counts))


def _outline(shares: Float64Array, top: float) -> str:
    """Return the outline of a histogram of heights up to 1 as an SVG path; y points down."""
    heights = 1 - shares / (top if top > 0 else 1.0)
    steps = "".join(f"V{height:.3g}H{bin + 1}" for bin, height in enumerate(heights.tolist()))
    return f"M0 1{steps}V1Z"


def _neighbor(neighbor: Neighbor, away: str) -> str:
    distance_text = away.format(number(neighbor.distance))
    return (
        f"{distance_text}, {format_share(neighbor.doubt)} of the rows in doubt"
        if neighbor.doubt
        else distance_text
    )


def _exemplars(exemplars: list[Exemplar]) -> str:
    return ", ".join(
        f"{shortened(each.name, LONGEST)} ({number(each.distance)})" for each in exemplars
    )
