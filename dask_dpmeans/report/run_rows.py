"""The rows of a run: read once more, for maps, portraits of clusters and warnings."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from math import fsum
from typing import Any

from dask_dpmeans.api import description
from dask_dpmeans.checks import format_count
from dask_dpmeans.engine.plan import Kernel
from dask_dpmeans.errors import CorruptStoreError, InputError, redact
from dask_dpmeans.estimators.spec import next_price
from dask_dpmeans.figures import data as plot_data
from dask_dpmeans.figures import plot
from dask_dpmeans.figures.data import Model, Overview
from dask_dpmeans.kernels.cluster_statistics import NEAR, NearestTwo
from dask_dpmeans.kernels.encoding import Encoding
from dask_dpmeans.kernels.great_circle import SpherePoints
from dask_dpmeans.kernels.metrics import metric_of
from dask_dpmeans.methods.dpmeans.mixture import mixture_of
from dask_dpmeans.registry import spec_of
from dask_dpmeans.report import origin
from dask_dpmeans.report.page import Picture
from dask_dpmeans.selection import commands
from dask_dpmeans.sources import RowSource, Stored, as_source, is_lazy, path_of
from dask_dpmeans.storage.run_store import Result

UNWEIGHTED = (
    "The weights of the rows are not known any more: in maps, histograms and shares of rows in "
    "doubt each row counts once."
)
UNGROUPED = (
    "The data sets of the rows are not known any more: each row is shown in the cluster of its "
    "nearest center."
)


NOT_FLAT = (
    "Maps of the rows are left out: they show squared distances of complete rows, and this fit has "
    "other divergences or missing values."
)


@dataclass(frozen=True)
class RowParts:
    """The parts of a page that need the rows."""

    warnings: list[str] = field(default_factory=list)
    overview: Overview | None = None
    picture: Picture | None = None
    """A graph, or places on the earth."""
    notes: list[str] = field(default_factory=list)


def read_rows(
    result: Result,
    model: Model,
    data: Any,
    columns: Sequence[int | str] | None,
    where: Stored,
    *,
    given: bool,
) -> RowParts:
    """Return what the rows show, or a warning if they cannot be read and were not `given` by the user."""
    words, chosen = model.description(), _chosen_columns(model, columns)
    if isinstance(getattr(model, "features_", None), Encoding):
        return RowParts(overview=plot_data.column_overview(model), notes=[NOT_FLAT])
    embedded = words.stored_rows is not None
    if (data is None or data is False) and not embedded:
        if columns is not None:
            raise InputError("columns are for a map of the rows, which are not read: give data")
        return RowParts(notes=[] if data is False else origin.absent_rows(result.manifest))
    is_chart = _has_places(model)
    if not words.flat and not is_chart:
        return RowParts(notes=[NOT_FLAT])
    try:
        source = _source(result, model, data, where)
        if not embedded and _rows_changed(result, model, source):
            reason = "they have changed, or this is another type of CPU"
            differ = f"The rows at {_shown(data)} are not exactly the rows of the fit"
            return RowParts([f"{differ} ({reason}): they are not shown."])
        if "graph" in words.pictures:
            return _graph(result, model, source)
        if is_chart:
            return _chart(result, model, source)
        return _overview(result, model, source, chosen, _index_of(data))
    except (InputError, CorruptStoreError, OSError) as error:
        if given:
            raise
        return RowParts([redact(f"The rows at {_shown(data)} could not be shown: {error}")])


def _has_places(model: Model) -> bool:
    return isinstance(getattr(model, "features_", None), SpherePoints)


def _chosen_columns(model: Model, columns: Sequence[int | str] | None) -> list[int] | None:
    """Return the numbers of the columns of the first map, if it was asked for."""
    if columns is None:
        return None
    if _has_places(model):
        raise InputError("columns cannot be chosen for places, which have one map: leave them out")
    if not model.description().flat:
        raise InputError(f"columns are for a map of the rows. {NOT_FLAT}")
    if not has_centers(model):
        name = type(model).__name__
        raise InputError(f"columns are for a map of rows, and {name} has no centers among them")
    return plot_data.column_numbers(model, plot_data.feature_names(model), columns)


def _index_of(data: Any) -> Sequence[object] | None:
    """Return the names of the rows of a data frame in memory; None of other data."""
    if not hasattr(data, "columns") or is_lazy(data):
        return None
    return getattr(data, "index", None)


def has_centers(model: Model) -> bool:
    """Return whether centers of clusters, or of micro-clusters, lie among the rows."""
    words = model.description()
    return words.centers is not None or "micro-clusters" in words.pictures


def _shown(data: Any) -> str:
    return redact(os.fspath(data)) if isinstance(data, str | os.PathLike) else "hand"


def _source(result: Result, model: Model, data: Any, where: Stored) -> RowSource:
    """Return the input, as the fit saw it."""
    spec = spec_of(model)
    if spec.sparse:
        return as_source(spec.read(data), sparse=True, **where)
    given, groups = _inputs_beside(result), {}
    if "groups" in given and spec.takes_groups:
        groups["groups"] = given["groups"]
    return plot_data.rows_of(data, model, given.get("sample_weight"), **groups, **where)


def _inputs_beside(result: Result) -> dict[str, str]:
    """Return the paths of the data sets and the weights of the rows, if they still exist."""
    found = commands.sources(result.manifest)
    beside = {name: found[name] for name in ("groups", "sample_weight")}
    return {name: path for name, path in beside.items() if path and os.path.exists(path_of(path))}


def _weights_lost(result: Result, model: Model) -> bool:
    """Return whether the fit had weights that rows do not have any more."""
    kept = model.description().stored_rows is None and "sample_weight" in _inputs_beside(result)
    return result.manifest.input.weighted and not kept


def _rows_changed(result: Result, model: Model, source: RowSource) -> bool:
    """Return whether the rows are known to differ from the rows of the fit."""
    fitted = result.manifest.input
    if (source.plan.n_rows, source.layout.stored_columns) != fitted.shape:
        return True
    comparable = (
        source.summary.n_groups == fitted.n_groups
        and source.plan.block_rows == fitted.block_rows  # sums are over the same blocks
        and not fitted.weighted
        and not model.description().learned_rows
    )
    return comparable and description.fingerprint(source.summary) != fitted.fingerprint


def _overview(
    result: Result,
    model: Model,
    source: RowSource,
    columns: list[int] | None,
    index: Sequence[object] | None,
) -> RowParts:
    if not has_centers(model):
        return RowParts()
    names = plot_data.feature_names(model)
    penalty = _reach(result, model)
    predict = _predictor(result, model, source, penalty)
    found = plot_data.overview(source, model, predict, penalty, names, columns=columns, index=index)
    warnings = edge_warnings(model, found, penalty, source.plan.n_rows)
    if _weights_lost(result, model):
        warnings.append(UNWEIGHTED)
    if result.manifest.input.n_groups and not source.summary.n_groups:
        warnings.append(UNGROUPED)
    return RowParts(warnings, found)


def _reach(result: Result, model: Model) -> float:
    """Return the squared distance from which on a row is far from a center; infinity if unknown."""
    words, chosen = model.description(), result.manifest.parameters
    if words.radius is not None:
        return float(words.radius**2)
    if words.centers is None or not {"local_penalty", "penalty"} & chosen.keys():
        return math.inf
    return float(chosen["local_penalty"]) if "local_penalty" in chosen else next_price(result)


def _predictor(result: Result, model: Model, source: RowSource, penalty: float) -> Kernel:
    """Return the kernel that labels the rows, with their second clusters if a mixture is known."""
    spec, words = spec_of(model), model.description()
    if spec.soft_predictor is not None:
        soft = spec.soft_predictor(result, 1)
        return NearestTwo(soft.mixture, soft.penalty, soft.noise)
    if spec.takes_groups:
        known = source.summary.n_groups > 0
        return spec.predictor(result) if known else plot_data.nearest_clusters(model)
    try:
        inertia, divergence = fsum(model.cluster_inertias_), metric_of(words.metric)
        mixture = mixture_of(model.cluster_centers_, model.cluster_weights_, inertia, divergence)
    except InputError:
        return plot_data.nearest_clusters(model)
    return NearestTwo(mixture, penalty)


def edge_warnings(model: Model, found: Overview, penalty: float, n_rows: int) -> list[str]:
    """Return warnings about rows near or beyond the radius, if there is one."""
    words, warnings = model.description(), []
    if words.radius is None:
        return []
    if found.beyond:
        rows = format_count(found.beyond, "row")
        warnings.append(f"{rows} of weight 1 or more beyond the radius of every cluster.")
    if found.near:
        share, name = found.near / n_rows, words.penalty_name
        warnings.append(
            f"{format_count(found.near, 'row')} ({share:.2g} of all) near the radius: squared "
            f"distances above {NEAR:g} of the {name} {penalty:g}. With a slightly lower {name}, "
            "some would open clusters."
        )
    return warnings


def _chart(result: Result, model: Model, source: RowSource) -> RowParts:
    found = plot_data.chart(source, model, spec_of(model).predictor(result))
    caption = "Places in the colors of their clusters, and centers with their numbers."
    warnings = [UNWEIGHTED] if _weights_lost(result, model) else []
    draw = partial(plot.row_map, found, model)
    return RowParts(warnings, picture=Picture.of("Map", caption, draw, dots=True))


def _graph(result: Result, model: Model, source: RowSource) -> RowParts:
    if source.plan.n_rows > plot_data.MOST_NODES:
        most = f"graphs of up to {plot_data.MOST_NODES:,} are drawn"
        return RowParts(notes=[f"The graph has {source.plan.n_rows:,} nodes; {most}."])
    caption = "The nodes and their links; each cluster has a color and a marker."
    labels, weights = result.open_rows("labels")[:], model.cluster_weights_
    draw = partial(plot.graph, source, labels, cluster_weights=weights)
    return RowParts(picture=Picture.of("Graph", caption, draw))
