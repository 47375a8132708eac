"""The commands that make data: synthetic rows, and a first run on them."""

import os
from pathlib import Path
from typing import Any

import click

import dask_dpmeans
from dask_dpmeans import storage
from dask_dpmeans.cli import library
from dask_dpmeans.cli.choices import KINDS
from dask_dpmeans.cli.group import CommandWithHeadings, print_lines
from dask_dpmeans.cli.options import FORCE, number, with_storage
from dask_dpmeans.errors import InputError, redact


@click.command("synth", CommandWithHeadings)
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("out")
@number("--rows", 1_000_000, "Number of rows.", click.IntRange(1))
@number("--features", 16, "Number of columns.", click.IntRange(1))
@number("--centers", 100, "Number of blobs.", click.IntRange(1))
@number("--seed", 0, "Random seed.", click.IntRange(0))
@with_storage
@FORCE
def synth_command(
    kind: Any,
    out: str,
    rows: int,
    features: int,
    centers: int,
    seed: int,
    storage_options: dict[str, Any],
    force: bool,
) -> None:
    """Write synthetic rows to OUT/rows, and their true labels to OUT/truth."""
    blobs = library.synthetic.Synthetic(kind, rows, features, centers, seed)
    library.synthetic.write_synthetic(blobs, out, force=force, storage_options=storage_options)
    print_lines(
        f"{library.format_count(rows, 'row')} of {library.format_count(features, 'column')}: {redact(out)}/rows"
    )


@click.command("demo", CommandWithHeadings)
@click.argument("folder", default="dask-dpmeans-demo")
def demo_command(folder: str) -> None:
    """Write synthetic rows to FOLDER, cluster them, and show the result."""
    folder = os.path.expanduser(folder)
    if not storage.Location.at(folder).remote:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder} cannot be a folder: {error}") from error
    penalty = 160.0
    data, run = f"{folder}/demo-blobs.zarr", f"{folder}/demo-run.zarr"
    blobs = library.synthetic.Synthetic(
        "blobs", n_rows=1_000_000, n_features=16, n_centers=100, seed=0
    )
    size = f"{blobs.n_rows:,} rows of {blobs.n_features} columns"
    print_lines(f"{size} around {blobs.n_centers} centers: {data}/rows")
    library.synthetic.write_synthetic(blobs, data, force=True)
    print_lines(f"dask-dpmeans fit {data}/rows {run} --penalty {penalty:g}")
    with library.progress(False) as shown:
        observers: dict[str, Any] = {"on_step": shown.step, "on_pass": shown.watch}
        model = dask_dpmeans.fit(
            f"{data}/rows",
            run,
            dask_dpmeans.DPMeans(penalty, random_state=0),
            force=True,
            **observers,
        )
    library.tables.say_result(storage.Location.at(run), False, shown.pace.seconds())
    truth = blobs.centers[library.numpy.newaxis] - model.cluster_centers_[:, library.numpy.newaxis]
    farthest = float(library.numpy.sqrt((truth**2).sum(axis=2).min(axis=0).max()))
    away = f"lies {farthest:.3f} from the nearest one found"
    print_lines(f"the farthest of the {blobs.n_centers} true centers {away}")
