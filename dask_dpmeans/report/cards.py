"""The clusters of a page: a card each, in words, with small bars and histograms."""

from typing import NamedTuple

import numpy as np

from dask_dpmeans.checks import format_share
from dask_dpmeans.figures import plot
from dask_dpmeans.figures.data import Feature, Overview, Part, Portrait
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
