"""The command that tells how far a run can be from the best clusters."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Unpack

import click

import dask_dpmeans
from dask_dpmeans import storage
from dask_dpmeans.cli import library
from dask_dpmeans.cli.absent import RUN_ARGUMENT
from dask_dpmeans.cli.compute import ComputeOptions, open_rows
from dask_dpmeans.cli.group import StoppedError, WrongUseError
from dask_dpmeans.cli.headings import CommandWithHeadings
from dask_dpmeans.cli.options import ARRAY, COMPUTE_OPTIONS, JSON, with_options


@with_options(
    click.command("bound", CommandWithHeadings),
    RUN_ARGUMENT,
    click.option("--data", help="Rows of the run, if they have moved."),
    click.option("--weights", help=f"Weights of the rows, if they have moved: {ARRAY}."),
    *COMPUTE_OPTIONS,
    JSON,
)
def bound_command(
    run: str,
    data: str | None,
    weights: str | None,
    as_json: bool,
    **compute: Unpack[ComputeOptions],
) -> None:
    """Tell how far the objective of RUN can be above the lowest one.

    The bound is proved: no clusters of the rows cost less. It is nearest to the optimum for up to
    four columns or some hundred rows. RUN keeps the bound of its rows, for `show`, `report` and the
    next call.
    """
    loaded = library.loading.open_run(storage.Location.at(run, compute["storage_options"]))
    known = loaded.result.store.bound()
    if known is not None and data is None and weights is None:
        _say(library.bounds.LowerBound(**known), as_json)
        return
    found = data or library.commands.sources(loaded.result.manifest)["data"]
    if found is None:
        raise WrongUseError("the rows of this run were in memory: give them by --data")
    rows = library.prediction.rows_at(loaded.result, found)
    reads, columns = loaded.model._reads(), loaded.result.manifest.input.columns
    with (
        _stoppable(loaded.result.store),
        open_rows(rows, False, False, reads, columns, **compute) as (opened, work),
        library.progress(as_json) as shown,
    ):
        bound = dask_dpmeans.lower_bound(loaded, opened, weights, on_pass=shown.watch, **work)
    _say(bound, as_json)


@contextmanager
def _stoppable(store: "storage.RunStore") -> Iterator[None]:
    """Raise `StoppedError` that says what the same command does if the bound inside is stopped."""
    try:
        yield
    except KeyboardInterrupt:
        kept = store.steps.has_checkpoints()
        then = f"goes on with what {store.shown} keeps" if kept else "begins anew"
        raise StoppedError(f"stopped: the same command {then}") from None


def _say(bound: "library.bounds.LowerBound", as_json: bool) -> None:
    """Show a bound; a gap of a bound that proves nothing is null in JSON."""
    if as_json:
        gap = bound.gap if math.isfinite(bound.gap) else None
        click.echo(json.dumps({"event": "bound", **asdict(bound), "gap": gap}))
        return
    click.echo(f"objective    {bound.objective:.9g}, {bound.n_clusters:,} clusters")
    click.echo(f"lower bound  {bound.value:.9g}, by {bound.method}")
    click.echo(f"gap          {library.share_above(bound.gap)}")
