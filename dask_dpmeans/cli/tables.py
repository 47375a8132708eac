"""What a run, a path or an estimate comes to: as JSON, and as text for people."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click
import numpy as np

from dask_dpmeans.api.cost import Estimate
from dask_dpmeans.api.loading import LoadedRun, open_run
from dask_dpmeans.cli.progress import elapsed
from dask_dpmeans.errors import redacted
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.selection.penalty import PenaltyFor, PenaltyPath
from dask_dpmeans.selection.tree import ClusterTree
from dask_dpmeans.sources import format_bytes
from dask_dpmeans.storage.location import Location
from dask_dpmeans.text import counted, figures


def describe(run: LoadedRun) -> dict[str, Any]:
    """Return the request and the result of a finished run, as JSON holds them."""
    result = run.result
    weights, inertias = result.arrays["cluster_weights"], result.arrays["cluster_inertias"]
    return {
        "run": result.store.shown,
        **result.manifest.as_json(),
        **run.model.description().json,
        "result": asdict(result.history[-1]) | {"n_iter": len(result.history)},
        "clusters": [
            {"cluster": number, "weight": weight, "inertia": inertia}
            for number, (weight, inertia) in enumerate(zip(weights.tolist(), inertias.tolist(), strict=True))
        ],
        "history": [asdict(record) for record in result.history],
    }


def say_result(run: Location, as_json: bool) -> None:
    if as_json:
        described = describe(open_run(run))
        whole = {key: described[key] for key in ("run", "converged", "n_passes")}
        click.echo(json.dumps({"event": "done", **whole, **described["result"]}))
    else:
        click.echo(run_table(open_run(run)))


def run_table(run: LoadedRun) -> str:
    """Return a run as text for people."""
    model, result, manifest = run.model, run.result, run.result.manifest
    words, rows = model.description(), manifest.input
    scaled = ", columns divided by their standard deviation" * rows.scaled
    unchecked = "; stored without checksums: a flipped bit would not be seen" * (not manifest.checksummed)
    heaviest = np.argsort(-model.cluster_weights_, kind="stable")[:5]
    weights = _weights(model.cluster_weights_[heaviest], None if rows.weighted else words.weight_unit)
    end = "converged" if manifest.converged else "stopped at max_iter"
    seconds = elapsed(sum(record.seconds for record in result.history))
    lines = {
        "run": result.store.shown,
        "input": f"{_shape(words.row, rows.shape)}, {np.dtype(rows.dtype).name}{scaled}{unchecked}",
        **words.settings,
        "clusters": words.clusters or f"{model.n_clusters_:,}",
        "objective": f"{model.objective_:.9g} = {words.objective_parts.format(inertia=model.inertia_)}",
        "steps": f"{model.n_iter_:,}, {end}; {manifest.n_passes:.2f} passes over the rows in {seconds}",
        "heaviest": ", ".join(f"{each} ({weight})" for each, weight in zip(heaviest, weights, strict=True)),
    }
    return "\n".join(f"{name:<11} {text}" for name, text in lines.items())


def _shape(row: str, shape: Sequence[int]) -> str:
    """How large the input is."""
    n, columns = shape
    return counted(n, row) if row == "node" else f"{counted(n, row)} x {counted(columns, 'column')}"


def _weights(weights: Float64Array, unit: str | None) -> list[str]:
    """What clusters weigh, and of what; `unit` is None where rows have weights of their own."""
    texts = figures(weights, 10)
    if unit is None:
        return [f"{text} in weight" for text in texts]
    return [f"{text} {unit}{'s' * (weight != 1)}" for text, weight in zip(texts, weights.tolist(), strict=True)]


def seen(found: PenaltyPath | PenaltyFor) -> str:
    """The rows that fits saw."""
    return f"{'all' if found.full else 'a summary of'} {counted(found.rows_used, 'row')}"


def say_path(found: PenaltyPath, out: str | None, as_json: bool, following: str | None) -> None:
    """Say a path, and what fits with the penalty that it proposes."""
    click.echo(json.dumps(_path_event(found, out)) if as_json else _path_table(found, following))


def _path_event(found: PenaltyPath, out: str | None) -> dict[str, Any]:
    """A path as JSON holds it, centers aside."""
    figures = ("penalties", "n_clusters", "inertias", "objectives")
    said = ("search", "full", "rows_used", "crowded", "random_state", "longest", "penalty")
    return {
        "event": "path",
        "out": out and redacted(out),
        **{name: getattr(found, name).tolist() for name in figures},
        "stability": None if found.stability is None else found.stability.tolist(),
        "intervals": [interval._asdict() for interval in found.intervals],
        **{name: getattr(found, name) for name in said},
    }


def _path_table(found: PenaltyPath, following: str | None) -> str:
    """A path for people."""
    stability = "" if found.stability is None else f"{'stability':>11}"
    lines = [f"{'penalty':>13}{'clusters':>10}{'objective':>16}{'inertia':>16}{stability}"]
    for place, penalty in enumerate(found.penalties):
        index = "" if found.stability is None else f"{found.stability[place]:>11.2f}"
        lines.append(
            f"{penalty:>13.6g}{found.n_clusters[place]:>10,}{found.objectives[place]:>16.9g}"
            f"{found.inertias[place]:>16.9g}{index}"
        )
    lines += ["", f"{'from':>13}{'to':>13}{'clusters':>10}{'length':>8}"]
    lines += [
        f"{each.low:>13.6g}{each.high:>13.6g}{each.n_clusters:>10,}{each.length:>8.2f}" for each in found.intervals
    ]
    lines += ["", f"of {seen(found)}, as {'prices' if found.search else 'radii'}"]
    lines += [found.caution] * bool(found.caution)
    if not found.search:
        return "\n".join(lines)
    if found.longest is None:
        return "\n".join([*lines, "no interval is between those of the most clusters and of one: try more penalties"])
    middle = f"longest: {counted(found.longest, 'cluster')}, the middle is the price {found.penalty:.9g}"
    return "\n".join([*lines, middle, f"next: {following}"])


def say_tree(found: ClusterTree, out: str | None, as_json: bool) -> None:
    levels = [
        {name: getattr(level, name) for name in ("penalty", "n_clusters", "objective", "inertia")}
        | {"clusters": level.clusters.tolist()}
        for level in (found.leaves, *found.levels)
    ]
    if as_json:
        click.echo(json.dumps({"event": "tree", "out": out and redacted(out), "levels": levels}))
        return
    click.echo(f"{'penalty':>13}{'clusters':>10}{'objective':>16}{'inertia':>16}")
    for level in levels:
        click.echo("{penalty:>13.6g}{n_clusters:>10,}{objective:>16.9g}{inertia:>16.9g}".format(**level))


TARGETS = {
    "new": "would be written",
    "refused": "is there: would be refused without --force/--resume",
    "removed": "is there: --force would remove it first",
    "resumed": "is there: --resume would go on with it",
}


def say_estimate(found: Estimate, as_json: bool) -> None:
    click.echo(json.dumps({"event": "estimate", **asdict(found)}) if as_json else _estimate_table(found))


def _estimate_table(found: Estimate) -> str:
    """An estimate for people."""
    stored = "unknown" if found.stored_bytes is None else f"{found.stored_bytes:,}"
    columns = f"{found.n_features:,} of " * (found.n_features != found.n_columns) + counted(found.n_columns, "column")
    kept = "read once and kept in memory" if found.resident else "read again in each pass"
    loading = f", after {_duration(found.load_seconds)} to load the rows" * found.resident
    lines = [
        f"run         {found.run} {TARGETS[found.target]}",
        f"input       {counted(found.n_rows, 'row')} x {columns}, {found.dtype}",
        f"blocks      {found.n_blocks:,} of {counted(found.block_rows, 'row')}, in "
        f"{counted(found.n_shards, 'shard')} of {found.shard_rows:,}",
        f"bytes       {stored} as stored, {found.decoded_bytes:,} as decoded; {kept}",
        f"memory      planned for {format_bytes(found.worker_memory)} a worker, {format_bytes(found.thread_memory)} a "
        f"thread ({found.threads:,} in all); rows take {format_bytes(found.thread_bytes)} a thread",
        f"pass        about {_duration(found.pass_seconds)}{loading}: {found.basis}",
        *(f"advice      {each}" for each in found.advice),
        "nothing was written",
    ]
    return "\n".join(lines)


def _duration(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 60 else elapsed(seconds)
