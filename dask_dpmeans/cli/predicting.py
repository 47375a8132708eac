"""The command that predicts."""

import json
from dataclasses import asdict
from typing import Any, Unpack

import click

from dask_dpmeans import storage
from dask_dpmeans.cli import library
from dask_dpmeans.cli import options as option
from dask_dpmeans.cli.absent import DATA_ARGUMENT, RUN_ARGUMENT
from dask_dpmeans.cli.compute import ComputeOptions, open_rows
from dask_dpmeans.cli.group import CommandWithHeadings, print_lines
from dask_dpmeans.errors import redact


@option.with_options(
    click.command("predict", CommandWithHeadings, epilog=option.DATA),
    RUN_ARGUMENT,
    DATA_ARGUMENT,
    click.argument("out"),
    click.option("--groups", metavar="ARRAY", help=option.GROUPS),
    click.option(
        "--soft",
        type=click.IntRange(min=1),
        metavar="M",
        help="Also write the M most probable clusters of each row, and their probabilities.",
    ),
    option.KEEP,
    option.FILL_MISSING,
    *option.COMPUTE_OPTIONS,
    option.FORCE,
    option.JSON,
)
def predict_command(
    run: str,
    data: str,
    out: str,
    groups: str | None,
    soft: int | None,
    keep: tuple[str, ...] | None,
    fill_missing: bool,
    force: bool,
    as_json: bool,
    **compute: Unpack[ComputeOptions],
) -> None:
    """Label the rows of DATA with the clusters of RUN.

    Writes three values for each row to OUT, a Zarr group: label, squared_distance, and beyond, which is true if
    the row costs more than the penalty at every center: it is farther than the radius. With --soft M,
    also top_label and probability, M of each, and margin: by how much the label is more probable than
    any other cluster. If OUT ends with .parquet, it is a table instead, with the columns --keep of DATA too.
    """
    stored = compute["storage_options"]
    fitted, target = (storage.Location.at(each, stored) for each in (run, out))
    fitted_run = library.loading.read_run(fitted)
    given: dict[str, Any] = {"soft": soft, "keep": keep, "force": force}
    library.prediction.check_target(target, [fitted, data, groups], **given)
    accepts = library.loading.unfitted_run(fitted_run).model._reads()
    columns = fitted_run.manifest.input.columns
    rows_at = library.prediction.rows_at(fitted_run, data, keep, stored)
    with (
        open_rows(rows_at, fill_missing, False, accepts, columns, **compute) as (rows, work),
        library.progress(as_json) as shown,
    ):
        work["on_pass"] = shown.watch
        found = library.prediction.predict(fitted_run, rows, target, groups=groups, **given, **work)
    if as_json:
        print_lines(json.dumps({"event": "done", "out": redact(out), **asdict(found)}))
        return
    labeled = f"{library.format_count(found.n_rows, 'row')} labeled"
    if found.unlabeled:
        labeled += f", {found.unlabeled:,} of them with -1, in no cluster"
    print_lines(
        f"{labeled}, {found.beyond:,} of them costing more than the penalty at every center: {redact(out)}"
    )
