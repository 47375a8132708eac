"""Pictures of a fit and of a path of penalties: `views` makes the numbers, these functions draw them.

Each takes a `figure`, a ``matplotlib.figure.Figure`` or ``SubFigure`` (a new Figure by default), and returns it;
``figure.savefig("name.png")`` writes it.  No state of pyplot is touched.  Colors are ordered by lightness and clusters
have markers too, so that pictures can be read in grey.
"""

import io
from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import Any, TypeAlias, TypedDict, Unpack

import numpy as np

from dask_dpmeans import checks
from dask_dpmeans.errors import InputError
from dask_dpmeans.figures import data
from dask_dpmeans.kernels.block import BoolArray, Float64Array
from dask_dpmeans.selection.penalty import PenaltyPath
from dask_dpmeans.selection.tree import ClusterTree
from dask_dpmeans.sources import Stored
from dask_dpmeans.text import counted

try:
    import networkx
    from matplotlib import colormaps, rc_context
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.colors import ListedColormap, LogNorm
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.patheffects import withStroke
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter
except ModuleNotFoundError as error:
    raise ImportError(
        f'pictures need matplotlib and networkx, and {error.name} is missing: pip install "dask-dpmeans[plot]"',
        name=error.name,
    ) from error

AnyFigure: TypeAlias = Figure | SubFigure

INK, GREY, PALE = "black", "0.5", "0.9"
DENSITY = ListedColormap(colormaps["Greys"](np.linspace(0.25, 1.0, 256)))
"""One row in a box is no longer white."""
MARKERS = "os^DvPX*"
"""Of clusters, over and over."""
FEW = 40
"""So many clusters or steps have a tick or a marker each."""
SMALL = 8
"""Points, of letters that are many."""
FAR = 3.0
"""Scores beyond have the color of this one, so that an outlier does not turn all others pale."""
MOST_LEAVES = 300
"""Clusters side by side of which a tree is drawn."""
NAMED, NAMES = 60, 22
"""Clusters that a legend names, and in one column of it."""


def path(path: PenaltyPath, figure: AnyFigure | None = None) -> AnyFigure:
    """k, J and, where it is known, stability along a path of penalties.

    Parameters
    ----------
    path : what `dask_dpmeans.selection.penalty.penalty_path` found
    figure : Figure or SubFigure, optional

    Returns
    -------
    The figure: over the penalty, in the logarithm, the numbers of clusters with the intervals over which each stands,
    of prices the longest shaded; the objective; the mean adjusted Rand index of fits of halves.
    """
    checks.instance("path", path, PenaltyPath, "penalty_path")
    panels = ["clusters k", "objective J", "adjusted Rand index\nof halves"][: 2 if path.stability is None else 3]
    figure = _figure(figure, 7.0, 2.4 * len(panels))
    above, *below = _stacked(figure, panels)
    marker = "." if len(path.penalties) > FEW else "o"
    for interval in path.intervals:
        longest = path.search and interval.n_clusters == path.longest  # of radii it says little
        label = f"longest interval: {interval.n_clusters:,} clusters" if longest else None
        ends = [interval.low, interval.high]
        above.plot(ends, [interval.n_clusters] * 2, color=INK, linewidth=4 if longest else 1.5, label=label)
        for axes in [above, *below] if longest else []:
            axes.axvspan(*ends, color=PALE, zorder=0)
    above.plot(path.penalties, path.n_clusters, marker, color=GREY, markersize=4, zorder=1, label="penalties tried")
    _stretch(above, path.n_clusters, whole=True)
    line: dict[str, Any] = {"marker": marker, "color": INK, "markersize": 3, "linewidth": 1}
    below[0].plot(path.penalties, path.objectives, **line)
    _stretch(below[0], path.objectives)
    if path.stability is not None:
        below[-1].plot(path.penalties, path.stability, **line)
        below[-1].set_ylim(min(0.0, path.stability.min()) - 0.05, 1.05)
    above.legend(frameon=False)
    seen = "all" if path.full else "a summary of"
    above.set_title(f"{'prices' if path.search else 'radii'}, {seen} {path.rows_used:,} rows", fontsize="medium")
    below[-1].set_xscale("log")
    below[-1].set_xlabel("penalty, in squared units of the rows" + " times weight" * path.search)
    return figure


def history(model: Any, figure: AnyFigure | None = None) -> AnyFigure:
    """J, k, and births, deaths and moves along a fit.

    Parameters
    ----------
    model : a fitted estimator with `history_`, or a list of `dask_dpmeans.engine.history.Record`
    figure : Figure or SubFigure, optional

    Returns
    -------
    The figure: over the steps the objective, the number of clusters, and what changed clusters, a lane of bars for each
    kind of change, in the logarithm of the count; the largest count of each stands beside it.
    """
    found = data.history(model)
    names = list(found.changes)
    figure = _figure(figure, 7.0, 4.4 + 0.3 * len(names))
    panels = ["objective J", "clusters k", *(["changes\n(logarithm)"] if names else [])]
    heights = [2.0, 1.6, 0.7 + 0.3 * len(names)][: len(panels)]
    objective, clusters, *changes = _stacked(figure, panels, heights)
    steps = np.arange(1, len(found.objectives) + 1)
    marker = "o" if len(steps) <= FEW else ""
    objective.plot(steps, found.objectives, marker=marker, color=INK, markersize=4)
    _stretch(objective, found.objectives)
    clusters.step(steps, found.n_clusters, where="mid", marker=marker, color=INK, markersize=4)
    _stretch(clusters, found.n_clusters, whole=True)
    for axes in changes:
        _lanes(axes, steps, found.changes)
    last = [objective, clusters, *changes][-1]
    last.set_xlabel("step")
    last.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    last.set_xlim(0.5, len(steps) + 0.5)
    return figure


def _lanes(axes: Axes, steps: Any, changes: dict[str, Any]) -> None:
    """One lane of bars for each kind of change."""
    counts = np.array(list(changes.values()))
    kinds, which = np.nonzero(counts)
    heights = 0.8 * np.log1p(counts[kinds, which]) / np.log1p(counts.max())
    axes.vlines(
        steps[which], kinds + 0.4 - heights, kinds + 0.4, color=INK, linewidth=_within(250 / len(steps), 0.8, 6)
    )
    axes.hlines(np.arange(len(changes)) + 0.4, 0.5, len(steps) + 0.5, color=GREY, linewidth=0.5)
    axes.set_yticks(range(len(changes)), [f"{name} ≤ {of.max():,}" for name, of in changes.items()], fontsize=SMALL)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(changes) - 0.5, -0.5)


def sizes(model: Any, figure: AnyFigure | None = None) -> AnyFigure:
    """The weight and the root-mean-square radius of each cluster, the heaviest first.

    Parameters
    ----------
    model : a fitted estimator
    figure : Figure or SubFigure, optional

    Returns
    -------
    The figure; where the penalty is read as a radius, that is drawn too.  Of a graph, what each cluster adds to the cut
    takes the place of radii.
    """
    found = data.sizes(model)
    k = len(found.clusters)
    what = "part of the cut" if found.cut else f"root-mean-square\nradius, {model.description().units}"
    figure = _figure(figure, 7.0, 4.6)
    above, below = _stacked(figure, [f"weight, {found.unit}", what])
    ranks = np.arange(k)
    above.vlines(ranks, 0, found.weights, color=GREY, linewidth=_within(300 / k, 1, 8))
    if found.weights[-1] > 0 and found.weights[0] > 20 * found.weights[-1]:
        above.set_yscale("log")
        above.set_ylim(found.weights[-1] / 2, found.weights[0] * 2)
    else:
        above.set_ylim(0, found.weights[0] * 1.08)
    below.plot(ranks, found.radii, "o", color=INK, markersize=_within(200 / k, 2, 6))
    if found.limit is not None:
        below.axhline(
            found.limit,
            color=INK,
            linestyle="--",
            linewidth=1,
            label=f"√{model.description().penalty_name} = {found.limit:.4g}",
        )
        below.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, 1.2))
    top = max([*found.radii, found.limit or 0.0])
    below.set_ylim(-0.04 * top, 1.08 * top or 1.0)
    below.set_xlim(-0.6, k - 0.4)
    _cluster_ticks(below, found.clusters)
    return figure


def tree(tree: ClusterTree, figure: AnyFigure | None = None) -> AnyFigure:
    """Clusters of clusters as a dendrogram.

    Parameters
    ----------
    tree : what `dask_dpmeans.selection.tree.cluster_tree` found
    figure : Figure or SubFigure, optional

    Returns
    -------
    The figure: the clusters of the fit side by side, and over them, in the logarithm of the penalty, where they join.
    Of more than 300 clusters it is the part of the tree above the lowest level that has no more.
    """
    checks.instance("tree", tree, ClusterTree, "cluster_tree")
    drawn = data.upper(tree, MOST_LEAVES)
    found = data.dendrogram(drawn)
    if not found.joins:
        raise InputError("the tree has no levels at which clusters join: it needs two clusters, and higher penalties")
    figure = _figure(figure, 7.0, 4.6)
    axes = figure.subplots()
    axes.set_yscale("log")
    bottom, top = drawn.leaves.penalty or found.joins[0].height / 2, found.joins[-1].height
    width = _within(120 / len(found.leaves), 0.3, 1)
    for join in found.joins:
        axes.hlines(join.height, join.places.min(), join.places.max(), color=INK, linewidth=width)
        axes.vlines(join.places, np.maximum(join.heights, bottom), join.height, color=INK, linewidth=width)
    axes.set_ylim(bottom, 1.5 * top)
    axes.set_xlim(-0.6, len(found.leaves) - 0.4)
    axes.set_ylabel("penalty, squared units\nof the centers times weight")
    axes.spines[["top", "right"]].set_visible(False)
    named = len(found.leaves) <= FEW and not drawn.leaves.penalty
    places, turn = (range(len(found.leaves)), 90 * (len(found.leaves) > FEW / 2)) if named else ((), 0)
    axes.set_xticks(places, [str(leaf) for leaf in found.leaves[: len(places)]], rotation=turn)
    axes.set_xlabel("cluster" if named else _leaves(tree, drawn))
    return figure


def _leaves(whole: ClusterTree, drawn: ClusterTree) -> str:
    """What stands side by side."""
    of = f" at penalty {drawn.leaves.penalty:.4g}, of {whole.leaves.n_clusters:,} of the fit"
    return f"{counted(drawn.leaves.n_clusters, 'cluster')}{of * (drawn.leaves.penalty > 0)}"


def _cluster_ticks(axes: Axes, clusters: Any) -> None:
    if len(clusters) <= FEW:
        turn = 0 if len(clusters) * len(str(clusters.max())) <= 60 else 90
        axes.set_xticks(range(len(clusters)), [str(each) for each in clusters], rotation=turn)
        axes.set_xlabel("cluster, the heaviest first")
    else:
        axes.set_xlabel("clusters by weight, the heaviest is 0")


class MostProfile(TypedDict, total=False):
    """How much of a profile is drawn."""

    max_features: int
    max_clusters: int


def profile(
    model: Any, feature_names: Sequence[str] | None = None, figure: AnyFigure | None = None, **most: Unpack[MostProfile]
) -> AnyFigure:
    """In which features the clusters differ: z-scores of the centers as a heat map.

    Parameters
    ----------
    model : a fitted estimator with `cluster_centers_`
    feature_names : (d,) str, optional
        By default the columns of the DataFrame that was fitted, or numbers.
    figure : Figure or SubFigure, optional
    **most : max_features, max_clusters, as `dask_dpmeans.figures.data.profile` takes them

    Returns
    -------
    The figure; + and - stand where a score is above 1 or below -1.  It says which features and clusters it leaves out.
    """
    found = data.profile(model, feature_names, **most)
    lines, columns = found.scores.shape
    left = _left_out("clusters", [str(each) for each in found.clusters_left_out])
    left += _left_out("features", found.features_left_out)
    longest = max(map(len, found.features))
    height = 2.0 + 0.07 * min(longest, 24) + 0.22 * lines + 0.2 * len(left)
    figure = _figure(figure, _within(2.8 + 0.24 * columns, 5.5, 13), _within(height, 3.2, 13))
    axes = figure.subplots()
    bound = _within(float(np.abs(found.scores).max()), 1.0, FAR)
    image = axes.imshow(found.scores, cmap="RdBu_r", vmin=-bound, vmax=bound, aspect="auto", interpolation="nearest")
    for sign, marker in ((1, "+"), (-1, "_")):
        where = np.nonzero(sign * found.scores > 1)
        pale = np.abs(found.scores[where]) > 0.6 * bound
        axes.scatter(where[1], where[0], marker=marker, s=22, linewidth=1.2, color=np.where(pale, "white", "black"))
    axes.set_xticks(range(columns), [_short(name) for name in found.features], rotation=90, fontsize=SMALL)
    axes.set_yticks(range(lines), [str(each) for each in found.clusters], fontsize=SMALL)
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(lines - 0.5, -0.5)
    axes.set_ylabel("cluster")
    axes.set_xlabel("\n".join(["feature", *left]))
    beyond = "both" if np.abs(found.scores).max() > FAR else "neither"
    figure.colorbar(image, ax=axes, label="z-score of the center", extend=beyond)
    return figure


def _left_out(what: str, names: list[str], most: int = 8) -> list[str]:
    """Lines of text, where something was."""
    if not names:
        return []
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return wrap(f"left out, differing least: {what} {', '.join(map(_short, names[:most]))}{more}", 60)


def _short(name: str, most: int = 24) -> str:
    """A name without its middle, where it is long."""
    return name if len(name) <= most else f"{name[: most // 2]}…{name[1 - most // 2 :]}"


class MostSharing(TypedDict, total=False):
    """How much of a sharing is drawn."""

    max_lines: int
    max_centers: int


def sharing(model: Any, figure: AnyFigure | None = None, **most: Unpack[MostSharing]) -> AnyFigure:
    """Which data sets use which global centers, as shares of their weight.

    Parameters
    ----------
    model : a fitted `HDPMeans`
    figure : Figure or SubFigure, optional
    **most : max_lines, max_centers, as `dask_dpmeans.figures.data.sharing` takes them

    Returns
    -------
    The figure; data sets that have most of their weight in the same center are neighbors.
    """
    found = data.sharing(model, **most)
    lines, columns = found.shares.shape
    figure = _figure(figure, _within(2.8 + 0.22 * columns, 5, 13), _within(1.4 + 0.16 * lines, 3, 8))
    axes = figure.subplots()
    image = axes.imshow(found.shares, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    names = [str(each) for each in found.centers] + ["others"] * bool(len(found.centers_together))
    axes.set_xticks(range(columns), names, rotation=90 if columns > 20 else 0, fontsize=SMALL)
    together = f", others: {len(found.centers_together):,}" if len(found.centers_together) else ""
    axes.set_xlabel(f"global center, the heaviest first{together}")
    one = max(map(len, found.sets)) == 1
    if one and lines <= FEW:
        axes.set_yticks(range(lines), [str(each[0]) for each in found.sets], fontsize=SMALL)
        axes.set_ylabel("data set")
    else:
        total = sum(map(len, found.sets))
        axes.set_yticks([])
        axes.set_ylabel(f"{total:,} data sets, by their chief center" + ("" if one else f"\n{lines:,} lines of means"))
    figure.colorbar(image, ax=axes, label="share of the data set's weight")
    return figure


def density(
    X: Any,
    model: Any,
    columns: Sequence[int | str] | None = None,
    figure: AnyFigure | None = None,
    **options: Unpack[data.DensityOptions],
) -> AnyFigure:
    """Centers on a picture of the rows in two columns, or in the two directions of the greatest variance.

    Fewer than 10,000 rows are drawn as points, more as a histogram that is counted exactly, block by block, in the
    memory that a fit takes: up to three passes over the rows.

    Parameters
    ----------
    X : (n, d) rows as the model's `fit` takes them, or the path or URL of a Zarr array or ``.npy`` file
    model : a fitted estimator with `cluster_centers_`
    columns : two (or one) numbers or names of columns of X, optional
    figure : Figure or SubFigure, optional
    **options : feature_names, sample_weight, bins, client, threads, memory_limit, as
        `dask_dpmeans.figures.data.density` takes them

    Returns
    -------
    The figure; centers have their numbers where there is room, the heaviest first.
    """
    found = data.density(X, model, columns, **options)
    figure = _figure(figure, 7.0, 5.4)
    axes = figure.subplots()
    names = [f"{_short(name, 48)}\n({found.unit})" for name in found.axes]
    axes.set_xlabel(names[0])
    if len(names) == 1:
        _heights(axes, found)
    else:
        axes.set_ylabel(names[1])
        _rows(figure, axes, found)
        _numbered(axes, found, np.argsort(-model.cluster_weights_, kind="stable"))
    inside = ((found.centers >= found.low) & (found.centers <= found.high)).all(axis=1)
    beyond = [f"rows of weight {found.outside:,.6g}"] * (found.outside > 0.5)
    beyond += [counted(int(np.count_nonzero(~inside)), "center")] * (not inside.all())
    said = f"{counted(found.n_rows, 'row')}, {counted(len(found.centers), 'center')}"
    axes.set_title(said + (f"\noutside of the picture: {', '.join(beyond)}" if beyond else ""), fontsize="medium")
    return figure


def _rows(figure: AnyFigure, axes: Axes, found: data.Density) -> None:
    """The rows in two directions, and a frame around them."""
    margin = 0.03 * (found.high - found.low)
    margin = np.where(margin > 0, margin, 0.5)
    if found.points is not None:
        size = _within(4000 / len(found.points), 2, 12)
        axes.scatter(found.points[:, 0], found.points[:, 1], size, color=GREY, linewidth=0, rasterized=True)
    elif found.counts is not None:
        shown = np.ma.masked_equal(found.counts.T, 0)
        norm = LogNorm(shown.min(), max(shown.max(), 2 * shown.min()))
        extent = (found.low[0], found.high[0], found.low[1], found.high[1])
        image = axes.imshow(shown, cmap=DENSITY, norm=norm, extent=extent, origin="lower", aspect="auto")
        figure.colorbar(image, ax=axes, label="weight of the rows in a box")
    axes.set_xlim(found.low[0] - margin[0], found.high[0] + margin[0])
    axes.set_ylim(found.low[1] - margin[1], found.high[1] + margin[1])


def _heights(axes: Axes, found: data.Density) -> None:
    """The rows in one direction, and centers below."""
    assert found.counts is not None
    edges = np.linspace(found.low[0], found.high[0], len(found.counts) + 1)
    axes.stairs(found.counts, edges, fill=True, color=GREY)
    axes.plot(found.centers[:, 0], np.zeros(len(found.centers)), "^", color=INK, clip_on=False, label="center")
    axes.set_xlim(found.low[0], found.high[0])
    axes.set_ylim(0, None)
    axes.set_ylabel("weight of the rows in a box")
    axes.legend(frameon=False)


def _numbered(axes: Axes, found: data.Density, order: Any) -> None:
    """Centers in two directions, with those numbers that have room."""
    centers = found.centers[order]
    size = _within(1000 / len(centers), 3, 36)
    axes.scatter(
        centers[:, 0],
        centers[:, 1],
        size,
        color="white",
        edgecolor=INK,
        linewidth=_within(size / 10, 0.4, 1.2),
        zorder=3,
    )
    places = (centers - found.low) / np.where(found.high > found.low, found.high - found.low, 1.0) * (360, 300)
    inside = ((places >= 0) & (places <= (360, 300))).all(axis=1)
    room = spaced(places[inside], (18, 12), 10)
    for number, center in zip(order[inside][room], centers[inside][room], strict=True):
        text = axes.annotate(
            str(number), center, (0, 5), textcoords="offset points", ha="center", fontsize=SMALL, zorder=4
        )
        text.set_path_effects([withStroke(linewidth=2, foreground="white")])


def spaced(points: Float64Array, box: tuple[float, float], above: float) -> BoolArray:
    """Which points to label so that no label overlaps another or lies on a point, the first ones first.

    Parameters
    ----------
    points : (k, 2)
    box : width and height of a label, in the same units
    above : how far the middle of a label lies above its point

    Returns
    -------
    (k,) bool
    """
    chosen = np.zeros(len(points), bool)
    for number, point in enumerate(points):
        label = point + np.array([0.0, above])
        others = np.abs(np.delete(points, number, axis=0) - label) < np.array(box) / 2
        labels = np.abs(points[chosen] - point) < box
        chosen[number] = not (others.all(axis=1).any() or labels.all(axis=1).any())
    return chosen


def graph(graph: Any, labels: Any, figure: AnyFigure | None = None, **where: Unpack[Stored]) -> AnyFigure:
    """Nodes and links of a small graph, clusters by color and marker.

    Parameters
    ----------
    graph : (n, n) as `GraphCutDPMeans.fit` takes it, up to 500 nodes and 20,000 links
    labels : (n,) integers; -1 for nodes of no cluster
    figure : Figure or SubFigure, optional
    **where : client, threads, memory_limit, as `dask_dpmeans.fit` takes them

    Returns
    -------
    The figure; heavily linked nodes stand near one another, by springs between them (Fruchterman & Reingold 1991).
    """
    found = data.drawable(graph, labels, **where)
    numbers = np.unique(found.labels)
    figure = _figure(figure, 6.0 + 1.4 * -(-min(len(numbers), NAMED) // NAMES), 6.0)
    axes = figure.subplots()
    places = _layout(found.adjacency)
    links = found.adjacency.tocoo()
    once = links.row < links.col
    lines = np.stack([places[links.row[once]], places[links.col[once]]], axis=1)
    axes.add_collection(
        LineCollection(list(lines), colors="0.75", linewidths=_within(300 / max(1, len(lines)), 0.2, 0.8))
    )
    size = _within(4000 / len(places), 18, 60)
    none = places[found.labels < 0]
    if len(none):
        axes.scatter(none[:, 0], none[:, 1], size, marker="x", color=INK, zorder=2, label=f"no cluster ({len(none):,})")
    style: dict[str, Any]
    for marker, color, number in _styles(numbers[numbers >= 0]):
        members = places[found.labels == number]
        named = f"cluster {number} ({len(members):,})"
        style = {"marker": marker, "color": color, "edgecolor": INK, "linewidth": 0.6, "zorder": 2, "label": named}
        axes.scatter(members[:, 0], members[:, 1], size, **style)
    axes.set_axis_off()
    found_links = counted(int(np.count_nonzero(once)), "link")
    axes.set_title(f"{counted(len(places), 'node')}, {found_links}", fontsize="medium")
    _node_legend(axes)
    return figure


def _layout(adjacency: Any) -> Float64Array:
    """(n, 2), where to draw nodes; the same for the same graph."""
    weights = adjacency / adjacency.data.mean() if adjacency.nnz else adjacency
    found = networkx.spring_layout(networkx.from_scipy_sparse_array(weights), seed=0)
    return np.array([found[node] for node in range(adjacency.shape[0])], np.float64).reshape(-1, 2)


def _node_legend(axes: Axes) -> None:
    """Names of the first clusters, beside the picture."""
    handles, names = axes.get_legend_handles_labels()
    columns = -(-min(len(names), NAMED) // NAMES)
    title = f"the first {NAMED} of {len(names):,}" if len(names) > NAMED else None
    where: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "ncols": columns}
    axes.legend(handles[:NAMED], names[:NAMED], frameon=False, fontsize=SMALL, title=title, **where)


def _styles(clusters: Any) -> Iterable[tuple[str, Any, int]]:
    """Marker and color of each cluster: neighbors in number differ in lightness."""
    for place, number in enumerate(clusters.tolist()):
        yield MARKERS[place % len(MARKERS)], colormaps["viridis"](place * 0.618 % 1.0), number


def svg(figure: AnyFigure) -> str:
    """A figure as SVG whose letters are shapes, so that it needs no fonts; the same text for the same figure."""
    whole = figure.get_figure(root=True)
    assert whole is not None
    with rc_context({"svg.hashsalt": "dask_dpmeans", "svg.fonttype": "path"}), io.StringIO() as file:
        whole.savefig(file, format="svg", metadata={"Date": None})
        return file.getvalue()


def _figure(figure: AnyFigure | None, width: float, height: float) -> AnyFigure:
    """The figure given, or a new one of so many inches."""
    return Figure(figsize=(width, height), layout="constrained") if figure is None else figure


def _stacked(figure: AnyFigure, names: list[str], heights: list[float] | None = None) -> list[Axes]:
    """Panels over one horizontal axis, each with its name."""
    panels = figure.subplots(len(names), sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for axes, name in zip(panels, names, strict=True):
        axes.set_ylabel(name)
        axes.spines[["top", "right"]].set_visible(False)
    figure.align_ylabels()
    return list(panels)


def _stretch(axes: Axes, values: Any, *, whole: bool = False) -> None:
    """A logarithmic axis where values differ tenfold; of whole numbers it is marked with such."""
    if values.min() > 0 and values.max() > 10 * values.min():
        axes.set_yscale("log")
        if whole:
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_minor_locator(NullLocator())
    elif whole:
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if whole:
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def _within(value: float, low: float, high: float) -> float:
    return max(low, min(high, value))
