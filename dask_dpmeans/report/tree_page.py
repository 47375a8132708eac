"""What the page of a tree says."""

import shlex

import numpy as np

from dask_dpmeans.errors import InputError
from dask_dpmeans.figures import plot
from dask_dpmeans.report import origin
from dask_dpmeans.report.page import Page, Picture, Table, lines_of
from dask_dpmeans.selection.tree import ClusterTree, read_tree
from dask_dpmeans.storage.location import AnyPlace
from dask_dpmeans.storage.output import Output
from dask_dpmeans.text import counted, figures

MOST_LINES, MOST_LEVELS = 100, 12
"""Clusters of the fit in the table, the heaviest first, and levels that it has room for, the highest."""
CAPTION = "The penalty, as a price, at which clusters join: DP-means on their centers, by their weights."


def page(store: AnyPlace) -> Page:
    """What the page of a stored tree says."""
    tree = read_tree(store)
    return Page(
        store=Output.at(store).shown,
        headline=f"A tree of {counted(tree.leaves.n_clusters, 'cluster')} in {counted(len(tree.levels), 'level')}",
        warnings=[],
        facts={"Parameters": _parameters(tree)},
        pictures=[drawn_tree(tree)],
        tables=[_levels(tree), _members(tree)],
        call=call(tree),
        unknown=None if tree.asked["run"] else "model is what was fitted: the tree was told of no run",
        command=command(tree),
        versions=tree.asked["versions"],
    )


def drawn_tree(tree: ClusterTree) -> Picture:
    """A tree as a dendrogram, or why there is none."""
    try:
        return Picture.of("Tree", CAPTION, lambda: plot.tree(tree))
    except InputError as error:  # nothing joins in it
        return Picture("Tree", f"Not drawn: {error}.", None)


def _parameters(tree: ClusterTree) -> dict[str, str]:
    given = tree.asked["penalties"]
    penalties = "they double" if given is None else f"{len(given):,} given"
    found = {"penalties": penalties, "random_state": str(tree.random_state)}
    return found | ({"run": tree.asked["run"]} if tree.asked["run"] else {})


def _levels(tree: ClusterTree) -> Table:
    """What each level came to."""
    levels = (tree.leaves, *tree.levels)
    parts = [figures([level.penalty for level in levels]), [f"{level.n_clusters:,}" for level in levels]]
    parts += [[f"{getattr(level, name):.9g}" for level in levels] for name in ("objective", "inertia")]
    caption = (
        "The first are the clusters of the fit. The objective is inertia + penalty x clusters, of all rows; exact "
        "where the centers of the fit are the means of their rows, as they are after a fit with tol 0."
    )
    return Table("Levels", caption, ["penalty", "clusters", "objective, J", "inertia"], lines_of(parts))


def _members(tree: ClusterTree) -> Table:
    """Which cluster of each level the clusters of the fit are in."""
    order, levels = np.argsort(-tree.leaves.weights, kind="stable"), tree.levels[-MOST_LEVELS:]
    weights = tree.leaves.weights[order]
    parts = [[str(each) for each in order], figures(weights)]
    parts += [[str(each) for each in level.clusters[order]] for level in levels]
    columns = ["cluster", "weight", *(f"at {level.penalty:.4g}" for level in levels)]
    left_out = max(0, len(order) - MOST_LINES)
    more = f"; {left_out:,} lighter ones are left out, the tree has all" * (left_out > 0)
    lower = len(tree.levels) - len(levels)
    more += f"; {counted(lower, 'lower level')} left out" * (lower > 0)
    caption = f"The heaviest clusters of the fit, and the numbers of those that they are in at each penalty{more}."
    return Table("Clusters", caption, columns, lines_of(parts, MOST_LINES))


# How to make it again


def call(tree: ClusterTree) -> str:
    """Python that makes the tree again."""
    run, given = tree.asked["run"], tree.asked["penalties"]
    parts = ["model" if run is None else f"load({run!r})"]
    parts += [] if given is None else [repr(given)]
    parts += [] if run is None else [f"run={run!r}"]
    imports = "" if run is None else "from dask_dpmeans import load\n"
    imports += "from dask_dpmeans.selection.tree import cluster_tree, write_tree\n\n"
    return f"{imports}tree = cluster_tree({', '.join(parts)})\nwrite_tree(tree, {origin.AGAIN!r})"


def command(tree: ClusterTree) -> str | None:
    """The command that makes the tree again; None where its run has no path."""
    run, given = tree.asked["run"], tree.asked["penalties"]
    if run is None:
        return None
    penalties = [] if given is None else ["--penalties", ",".join(map(repr, given))]
    return shlex.join(["dask-dpmeans", "tree", run, origin.AGAIN, *penalties])
