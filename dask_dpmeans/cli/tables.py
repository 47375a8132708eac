"""Runs, paths, trees and estimates, as JSON or as text for people."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_dpmeans.api.loading import LoadedRun, open_run
from dask_dpmeans.checks import format_column, format_count, format_hundredths
from dask_dpmeans.cli.group import print_lines
from dask_dpmeans.cli.progress import format_duration
from dask_dpmeans.errors import redact
from dask_dpmeans.estimators.center_labels import model_labels, model_texts, used_columns
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.sources import format_bytes
from dask_dpmeans.storage.location import Location

if TYPE_CHECKING:
    from dask_dpmeans.api.cost import Estimate
    from dask_dpmeans.selection.penalty import PenaltyFor, PenaltyPath
    from dask_dpmeans.selection.tree import ClusterTree

MOST_COLUMNS = 12
"""Most columns of a table whose centers are shown as text."""
MOST_GAPS = 3
"""Clusters that are named with their parts of a gap."""
LEAST_GAP = 1e-6
"""Parts of a smaller gap are rounding."""


def describe(run: LoadedRun) -> dict[str, Any]:
    """Return the request and the result of a finished run, as JSON holds them."""
    result = run.result
    return {
        "run": result.store.shown,
        **result.manifest.as_json(),
        **run.model.description().json,
        "result": asdict(result.history[-1]) | {"n_iter": len(result.history)},
        "clusters": _clusters(run),
        "history": [asdict(record) for record in result.history],
    }


def _clusters(run: LoadedRun) -> list[dict[str, Any]]:
    """Return the figures of each cluster for JSON, with the center if there are categories."""
    arrays, model = run.result.arrays, run.model
    columns = {
        "weight": arrays["cluster_weights"],
        "inertia": arrays["cluster_inertias"],
        "stability": arrays.get("cluster_stability"),
        "gap": getattr(model, "cluster_gaps_", None),
    }
    known = {name: values.tolist() for name, values in columns.items() if values is not None}
    if not run.model.description().flat and any(model.features_.layout.categories):
        names = model_labels(model)
        known["center"] = [
            dict(zip(names, each, strict=True)) for each in arrays["cluster_centers"].tolist()
        ]
    lines = zip(*known.values(), strict=True)
    return [
        {"cluster": number, **dict(zip(known, line, strict=True))}
        for number, line in enumerate(lines)
    ]


def say_result(run: Location, as_json: bool, seconds: float) -> None:
    """Show the result of a fit, whose command took `seconds`."""
    if as_json:
        described = describe(open_run(run))
        whole = {key: described[key] for key in ("run", "converged", "n_passes")}
        print_lines(json.dumps({"event": "done", **whole, **described["result"]}))
    else:
        time = f"{'time':<11} {format_duration(seconds)} for the whole command"
        print_lines(f"{run_table(open_run(run))}\n{time}")


def run_table(run: LoadedRun) -> str:
    """Return a run as text for people."""
    model, result, manifest = run.model, run.result, run.result.manifest
    words, rows = model.description(), manifest.input
    scaled = ", columns divided by their standard deviation" * rows.scaled
    unchecked = "; stored without checksums: a flipped bit would not be seen" * (
        not manifest.checksummed
    )
    heaviest = np.argsort(-model.cluster_weights_, kind="stable")[:5]
    weights = _weights(
        model.cluster_weights_[heaviest], None if rows.weighted else words.weight_unit
    )
    end = "converged" if manifest.converged else "stopped at max_iter"
    seconds = format_duration(sum(record.seconds for record in result.history))
    lines = {
        "run": result.store.shown,
        "input": f"{_shape(words.row, rows.shape)}, {np.dtype(rows.dtype).name}{scaled}{unchecked}",
        **words.settings,
        "clusters": words.clusters or f"{model.n_clusters_:,}",
        "objective": f"{model.objective_:.9g} = {words.objective_parts.format(inertia=model.inertia_)}",
        "steps": f"{model.n_iter_:,}, {end}; the steps alone took {seconds}",
        "passes": f"{format_hundredths(manifest.n_passes)} over the {words.passes_over}",
        "heaviest": ", ".join(
            f"{each} ({weight})" for each, weight in zip(heaviest, weights, strict=True)
        ),
    }
    lines |= _bound_lines(model, words.bound)
    lines |= _center_lines(model, heaviest.tolist())
    return "\n".join(f"{name:<11} {text}" for name, text in lines.items())


def _bound_lines(model: Any, bound: str) -> dict[str, str]:
    """Return how far the objective is above a lower bound, and the clusters with most of it."""
    if not bound:
        return {}
    gaps = model.cluster_gaps_
    if gaps is None or model.gap_ < LEAST_GAP:
        return {"gap": bound}
    widest = np.argsort(-gaps, kind="stable")[:MOST_GAPS].tolist()
    parts = ", ".join(f"{each} ({gaps[each] / gaps.sum():.0%})" for each in widest)
    return {"gap": bound, "gap is of": f"clusters {parts}"}


def _center_lines(model: Any, clusters: list[int]) -> dict[str, str]:
    """Return the centers of some clusters, if their columns are few and have names or divergences."""
    if not model.description().flat:
        if len(model.features_.layout.names) > MOST_COLUMNS:
            return {}
        return {f"center {each}": "; ".join(model_texts(model, each)) for each in clusters}
    centers, (names, _) = getattr(model, "cluster_centers_", None), used_columns(model)
    named = hasattr(model, "feature_names_in_") and len(names) <= MOST_COLUMNS
    if centers is None or not named or centers.shape[1] != len(names):
        return {}
    return {
        f"center {each}": "; ".join(
            f"{name}: {value:.6g}" for name, value in zip(names, centers[each], strict=True)
        )
        for each in clusters
    }


def _shape(row: str, shape: Sequence[int]) -> str:
    n, columns = shape
    if row == "node":
        return format_count(n, row)
    return f"{format_count(n, row)} x {format_count(columns, 'column')}"


def _weights(weights: Float64Array, unit: str | None) -> list[str]:
    """Return weights with their unit; `unit` is None if the rows have weights."""
    texts = format_column(weights, 10)
    if unit is None:
        return [f"{text} in weight" for text in texts]
    return [
        f"{text} {unit}{'s' * (weight != 1)}"
        for text, weight in zip(texts, weights.tolist(), strict=True)
    ]


def rows_seen(found: PenaltyPath | PenaltyFor) -> str:
    """Return a text about the rows that fits saw."""
    rows = format_count(found.rows_used, "row")
    return f"all {rows}" if found.full else f"a summary of {rows}"


def say_path(found: PenaltyPath, out: str | None, as_json: bool, following: str | None) -> None:
    """Show a path, and the command that fits with the penalty that it proposes."""
    print_lines(json.dumps(_path_event(found, out)) if as_json else _path_table(found, following))


def _path_event(found: PenaltyPath, out: str | None) -> dict[str, Any]:
    """Return a path for JSON, without centers."""
    arrays = ("penalties", "n_clusters", "inertias", "objectives")
    scalars = ("search", "full", "rows_used", "crowded", "random_state", "longest", "penalty")
    return {
        "event": "path",
        "out": out and redact(out),
        **{name: getattr(found, name).tolist() for name in arrays},
        "stability": None if found.stability is None else found.stability.tolist(),
        "intervals": [interval._asdict() for interval in found.intervals],
        **{name: getattr(found, name) for name in scalars},
    }


HEADER = f"{'penalty':>13}{'clusters':>10}{'objective':>16}{'inertia':>16}"
LINE = "{penalty:>13.6g}{n_clusters:>10,}{objective:>16.9g}{inertia:>16.9g}"


def _path_table(found: PenaltyPath, following: str | None) -> str:
    columns = (found.penalties, found.n_clusters, found.objectives, found.inertias)
    names = ("penalty", "n_clusters", "objective", "inertia")
    rows = (dict(zip(names, line, strict=True)) for line in zip(*columns, strict=True))
    table = [HEADER, *(LINE.format(**row) for row in rows)]
    if found.stability is not None:
        stability = ["stability", *(f"{index:z.2f}" for index in found.stability)]
        table = [f"{line}{text:>11}" for line, text in zip(table, stability, strict=True)]
    lines = [*table, "", f"{'from':>13}{'to':>13}{'clusters':>10}{'length':>8}"]
    lines += [
        f"{each.low:>13.6g}{each.high:>13.6g}{each.n_clusters:>10,}{each.length:>8.2f}"
        for each in found.intervals
    ]
    lines += ["", f"of {rows_seen(found)}, as {'prices' if found.search else 'radii'}"]
    if found.caution:
        lines.append(found.caution)
    if found.search and found.longest is None:
        lines.append(
            "no interval lies between the largest number of clusters and one cluster: try more penalties"
        )
    elif found.search:
        longest = format_count(found.longest or 0, "cluster")
        lines.append(f"longest: {longest}, the middle is the price {found.penalty:.9g}")
        lines.append(f"next: {following}")
    return "\n".join(lines)


def say_tree(found: ClusterTree, out: str | None, as_json: bool) -> None:
    """Show a tree."""
    levels = [
        {name: getattr(level, name) for name in ("penalty", "n_clusters", "objective", "inertia")}
        | {"clusters": level.clusters.tolist()}
        for level in (found.leaves, *found.levels)
    ]
    if as_json:
        print_lines(json.dumps({"event": "tree", "out": out and redact(out), "levels": levels}))
    else:
        print_lines("\n".join([HEADER, *(LINE.format(**level) for level in levels)]))


TARGETS = {
    "new": "would be written",
    "refused": "is there: a fit needs --force or --resume",
    "removed": "is there: --force would remove it first",
    "resumed": "is there: --resume would go on with it",
}


def say_estimate(found: Estimate, as_json: bool) -> None:
    """Show the cost of a fit."""
    print_lines(
        json.dumps({"event": "estimate", **asdict(found)}) if as_json else _estimate_table(found)
    )


def _estimate_table(found: Estimate) -> str:
    stored = "unknown" if found.stored_bytes is None else f"{found.stored_bytes:,}"
    columns = format_count(found.n_columns, "column")
    if found.n_features != found.n_columns:
        columns = f"{found.n_features:,} of {columns}"
    kept, loading = "read again in each pass", ""
    if found.resident:
        kept = "read once and kept in memory"
        loading = f", after {_duration(found.load_seconds)} to load the rows"
    shards = f"{format_count(found.n_shards, 'shard')} of {found.shard_rows:,}"
    memory = f"{format_bytes(found.worker_memory)} a worker, {format_bytes(found.thread_memory)} a thread"
    lines = {
        "run": f"{found.run} {TARGETS[found.target]}",
        "input": f"{format_count(found.n_rows, 'row')} x {columns}, {found.dtype}",
        "blocks": f"{found.n_blocks:,} of {format_count(found.block_rows, 'row')}, in {shards}",
        "bytes": f"{stored} as stored, {found.decoded_bytes:,} as decoded; {kept}",
        "memory": f"planned for {memory} ({found.threads:,} in all); rows take {format_bytes(found.thread_bytes)} "
        "a thread",
        "pass": f"about {_duration(found.pass_seconds)}{loading}: {found.basis}",
    }
    advice = [f"{'advice':<12}{each}" for each in found.advice]
    return "\n".join(
        [*(f"{name:<12}{text}" for name, text in lines.items()), *advice, "nothing was written"]
    )


def _duration(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 60 else format_duration(seconds)
