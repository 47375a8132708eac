"""What a run, a path or an estimate comes to: as JSON, and as text for people."""

import json
import math
from dataclasses import asdict
from typing import Any

import click
import numpy as np

from dask_dpmeans.api.cost import Estimate
from dask_dpmeans.cli.progress import elapsed
from dask_dpmeans.errors import redacted
from dask_dpmeans.methods.dpmeans import search
from dask_dpmeans.methods.kernel import search as kernel_search
from dask_dpmeans.methods.spectral.relaxation import relaxed_objective
from dask_dpmeans.selection.penalty import PenaltyFor, PenaltyPath
from dask_dpmeans.selection.tree import ClusterTree
from dask_dpmeans.sources import format_bytes
from dask_dpmeans.storage.location import Location
from dask_dpmeans.storage.manifest import MIXTURE
from dask_dpmeans.storage.run_store import RunStore
from dask_dpmeans.text import counted, figures


def describe(run: Location) -> dict[str, Any]:
    """What a finished run was asked and what it found, as JSON holds it."""
    result = RunStore.at(run).result()
    weights, inertias = result.arrays["cluster_weights"], result.arrays["cluster_inertias"]
    spectrum = result.manifest["parameters"].get("spectrum")
    relaxed = spectrum and {
        "eigenvalues": result.arrays["eigenvalues"].tolist(),
        "relaxed_objective": relaxed_objective(result.arrays["eigenvalues"], spectrum["penalty"]),
    }
    return {
        "run": run.shown,
        **result.manifest,
        **(relaxed or {}),
        "result": asdict(result.history[-1]) | {"n_iter": len(result.history)},
        "clusters": [
            {"cluster": number, "weight": weight, "inertia": inertia}
            for number, (weight, inertia) in enumerate(zip(weights.tolist(), inertias.tolist(), strict=True))
        ],
        "history": [asdict(record) for record in result.history],
    }


def say_result(run: Location, as_json: bool) -> None:
    described = describe(run)
    if as_json:
        whole = {key: described[key] for key in ("run", "converged", "n_passes")}
        click.echo(json.dumps({"event": "done", **whole, **described["result"]}))
    else:
        click.echo(run_table(described))


def run_table(described: dict[str, Any]) -> str:
    """A run for people."""
    found, asked, rows = described["result"], described["parameters"], described["input"]
    heaviest = sorted(described["clusters"], key=lambda each: (-each["weight"], each["cluster"]))[:5]
    scaled = ", columns divided by their standard deviation" * rows["scaled"]
    weights = _weights(asked, rows, [each["weight"] for each in heaviest])
    lines = [
        f"run         {described['run']}",
        f"input       {_shape(asked, rows)}, {np.dtype(rows['dtype']).name}{scaled}"
        + "; stored without checksums: a flipped bit would not be seen" * (not described["checksummed"]),
        *_spectrum(described),
        *_clusters(described["method"], asked, rows, found),
        f"steps       {found['n_iter']:,}, {'converged' if described['converged'] else 'stopped at max_iter'}; "
        f"{described['n_passes']:.2f} passes over the rows in "
        f"{elapsed(sum(step['seconds'] for step in described['history']))}",
        "heaviest    "
        + ", ".join(f"{each['cluster']} ({weight})" for each, weight in zip(heaviest, weights, strict=True)),
    ]
    return "\n".join(lines)


def _shape(asked: dict[str, Any], rows: dict[str, Any]) -> str:
    """How large the input is."""
    n, columns = rows["shape"]
    return counted(n, "node") if "normalized" in asked else f"{counted(n, 'row')} x {counted(columns, 'column')}"


def _weights(asked: dict[str, Any], rows: dict[str, Any], weights: list[float]) -> list[str]:
    """What clusters weigh, and of what."""
    thing = {None: "row", True: "link end", False: "node"}[asked.get("normalized")]
    texts = figures(weights, 10)
    if rows["weighted"]:
        return [f"{text} in weight" for text in texts]
    return [f"{text} {thing}{'s' * (weight != 1)}" for text, weight in zip(texts, weights, strict=True)]


def _reading(method: str, asked: dict[str, Any]) -> str:
    """A price, or how far from its center the penalty lets a row be; nothing where that is as far as any may be."""
    penalty: float = asked["penalty"]
    if method in (search.Method.name, kernel_search.Method.name):
        return ", a price"
    if asked.get("metric", "euclidean") == "euclidean":
        return f", a radius of {penalty**0.5:g}"
    return f", an angle of {math.degrees(math.acos(1 - penalty / 2)):.4g} degrees" if penalty <= 4 else ""


def _spectrum(described: dict[str, Any]) -> list[str]:
    """The eigenvalues, of a run that has some."""
    if "spectrum" not in described["parameters"]:
        return []
    asked, values = described["parameters"]["spectrum"], described["eigenvalues"]
    return [
        f"affinity    {asked['affinity']}, {counted(len(values), 'eigenvalue')} above {asked['penalty']:g}: "
        f"{values[0]:.6g} to {values[-1]:.6g}; their eigenvectors are clustered",
        f"relaxed     {described['relaxed_objective']:.9g} at most is tr Y'(K - {asked['penalty']:g} I)Y of any "
        f"clustering; tr K = {described['affinity_trace']:.9g}",
    ]


def _clusters(method: str, asked: dict[str, Any], rows: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """The metric, the penalties, and what they led to."""
    inertia = f"objective   {found['objective']:.9g} = inertia {found['inertia']:.9g}"
    if "mean_variance" in asked:
        return [
            "mixture     " + ", ".join(f"{name.replace('_', ' ')} {asked[name]:g}" for name in MIXTURE),
            f"clusters    {found['n_clusters']:,} in the last draw",
            f"objective   {found['objective']:.9g} = -log of the joint density",
        ]
    if "normalized" in asked:
        return [
            f"penalty     {asked['penalty']:g} on the {'normalized' if asked['normalized'] else 'ratio'} cut",
            f"clusters    {found['n_clusters']:,}",
            f"objective   {found['objective']:.9g} = cut {found['inertia']:.9g} + penalty x clusters",
        ]
    if "local_penalty" not in asked:
        word = "threshold" if "spectrum" in asked else "penalty"
        name = next(name for name in ("kernel", "metric") if name in asked)
        return [
            f"{name:<11} {asked[name]}" + f", by {asked.get('approximation')}" * ("approximation" in asked),
            f"{word:<11} {asked['penalty']:g}{_reading(method, asked)}",
            f"clusters    {found['n_clusters']:,}",
            f"{inertia} + {word} x clusters",
        ]
    sets, local = rows["n_groups"], found["n_local_clusters"]
    features = [f"kernel      {asked['kernel']}, by {asked['approximation']}"] if "approximation" in asked else []
    return [
        *features,
        f"penalties   {asked['local_penalty']:g} a local cluster, {asked['global_penalty']:g} a global one",
        f"clusters    {found['n_clusters']:,} global; {local:,} local ones of {counted(sets, 'data set')}, "
        f"{local / sets:.2f} each",
        f"{inertia} + penalties x clusters",
    ]


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
