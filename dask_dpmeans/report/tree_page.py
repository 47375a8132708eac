"""The page of a tree of clusters."""

import shlex

import numpy as np

from dask_dpmeans.checks import format_column, format_count
from dask_dpmeans.errors import InputError
from dask_dpmeans.figures import plot
from dask_dpmeans.report import origin
from dask_dpmeans.report.page import Page, Picture, Table, lines_of
from dask_dpmeans.selection.tree import ClusterTree, read_tree
from dask_dpmeans.storage.location import AnyPlace
from dask_dpmeans.storage.output import Output

MOST_LINES, MOST_LEVELS = 100, 12
"""Limits of the table of clusters: the heaviest clusters of the fit, and the highest levels."""
CAPTION = "The price at which clusters join: DP-means on their centers, by weight."


def page(store: AnyPlace) -> Page:
    """Return the contents of the page of a stored tree."""
    tree = read_tree(store)
    clusters = format_count(tree.leaves.n_clusters, "cluster")
    levels, unknown = format_count(len(tree.levels), "level"), None
    if not tree.asked["run"]:
        unknown = "model is the fitted estimator: the tree has no path to a run"
    return Page(
        store=Output.at(store).shown,
        headline=f"A tree of {clusters} in {levels}",
        facts={"Parameters": _parameters(tree)},
        pictures=[drawn_tree(tree)],
        tables=[_levels(tree), _members(tree)],
        call=call(tree),
        unknown=unknown,
        command=command(tree),
        versions=tree.asked["versions"],
    )


def drawn_tree(tree: ClusterTree) -> Picture:
    """Return a tree as a dendrogram, or the reason why there is none."""
    try:
        return Picture.of("Tree", CAPTION, lambda: plot.tree(tree))
    except InputError as error:  # no clusters join
        return Picture("Tree", f"Not drawn: {error}.", None)


def _parameters(tree: ClusterTree) -> dict[str, str]:
    given = tree.asked["penalties"]
    penalties = "doubled from level to level" if given is None else f"{len(given):,} given"
    facts = {"penalties": penalties, "random_state": str(tree.random_state)}
    if tree.asked["run"]:
        facts["run"] = tree.asked["run"]
    return facts


def _levels(tree: ClusterTree) -> Table:
    levels = (tree.leaves, *tree.levels)
    columns = [format_column([level.penalty for level in levels])]
    columns.append([f"{level.n_clusters:,}" for level in levels])
    columns += [
        [f"{getattr(level, name):.9g}" for level in levels] for name in ("objective", "inertia")
    ]
    caption = (
        "The first line is the fit. The objective of all rows is inertia + penalty x clusters. It is exact if the "
        "centers of the fit are the means of their rows, as after a fit with tol 0."
    )
    names = ["penalty", "clusters", "objective, J", "inertia"]
    return Table("Levels", caption, names, lines_of(columns))


def _members(tree: ClusterTree) -> Table:
    """Return the table of the clusters of the fit, with their cluster in each level."""
    order, levels = np.argsort(-tree.leaves.weights, kind="stable"), tree.levels[-MOST_LEVELS:]
    columns = [[str(each) for each in order], format_column(tree.leaves.weights[order])]
    columns += [[str(each) for each in level.clusters[order]] for level in levels]
    names = ["cluster", "weight", *(f"at {level.penalty:.4g}" for level in levels)]
    caption = "The heaviest clusters of the fit, and the number of their cluster at each penalty"
    if len(order) > MOST_LINES:
        caption += (
            f"; {len(order) - MOST_LINES:,} lighter clusters are left out here, but not in the tree"
        )
    if len(tree.levels) > len(levels):
        caption += f"; {format_count(len(tree.levels) - len(levels), 'lower level')} left out"
    return Table("Clusters", f"{caption}.", names, lines_of(columns, MOST_LINES))


# How to reproduce


def call(tree: ClusterTree) -> str:
    """Return Python code that makes the tree again."""
    run, given = tree.asked["run"], tree.asked["penalties"]
    penalties = "" if given is None else f", {given!r}"
    code = "from dask_dpmeans.selection.tree import cluster_tree, write_tree\n\n"
    if run is None:
        code += f"tree = cluster_tree(model{penalties})"
    else:
        loaded = f"load({run!r}){penalties}, run={run!r}"
        code = f"from dask_dpmeans import load\n{code}tree = cluster_tree({loaded})"
    return f"{code}\nwrite_tree(tree, {origin.AGAIN!r})"


def command(tree: ClusterTree) -> str | None:
    """Return the command that makes the tree again; None if its run has no path."""
    run, given = tree.asked["run"], tree.asked["penalties"]
    if run is None:
        return None
    words = ["dask-dpmeans", "tree", run, origin.AGAIN]
    if given is not None:
        words += ["--penalties", ",".join(map(repr, given))]
    return shlex.join(words)
