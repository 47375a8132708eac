"""The section of a page about the choice of the penalty."""

from collections.abc import Callable

from dask_dpmeans.checks import format_column
from dask_dpmeans.figures import plot
from dask_dpmeans.methods.dpmeans.choice import Alternative, Choice
from dask_dpmeans.report.page import Picture, Section, Table, lines_of

TABLE = (
    "The chosen number comes first, then the others by falling score. Each is the best from one "
    "penalty to another. Stability says how well fits of two halves of the {} agree: 1 if they "
    "are the same. It is measured where the score is close to the best.{}"
)
REPLICATED = " Replicated is the share of the range over which they have as many clusters, give or take one in 40."
PICTURE = (
    "Top: the score of each number of clusters, which is how long the number stays the best while "
    "one more cluster gets dearer, allowing for shorter stays of larger numbers. Middle: the "
    "stability of the best ones. Bottom: the best number at each penalty; the chosen range is grey."
)


def section(choice: Choice, n_clusters: int, again: Callable[[Alternative], str]) -> Section:
    """Return the section about the choice of a fit, whose number of clusters may differ.

    `again` is the command that fits an alternative.
    """
    each = choice.alternatives
    columns = {
        "clusters": [f"{one.n_clusters:,}" for one in each],
        "penalty": format_column([one.penalty for one in each]),
        "best from": format_column([one.low for one in each]),
        "to": format_column([one.high for one in each]),
        "score": ["" if one.n_clusters == 1 else f"{one.score:.2f}" for one in each],
        "stability": ["" if one.stability is None else f"{one.stability:.2f}" for one in each],
    }
    measured, caption = [one.replicated for one in each], ""
    if any(share is not None for share in measured):
        columns["replicated"] = ["" if share is None else f"{share:.2f}" for share in measured]
        caption = REPLICATED
    table = Table(
        "Alternatives",
        TABLE.format(choice.halved, caption),
        list(columns),
        lines_of(list(columns.values())),
    )
    code = "\n".join(again(one) for one in each[1:])
    picture = None
    if len(choice.intervals) > 1:
        picture = Picture.of("Choice", PICTURE, lambda: plot.choice(choice))
    return Section("Why this number of clusters", choice.explain(n_clusters), table, code, picture)
