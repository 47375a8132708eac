"""Commands that help to choose: penalties, and levels of clusters."""

import json
import math
from typing import Any

import click
import numpy as np

from dask_dpmeans.cli.options import (
    DATA,
    FORCE,
    FULL,
    JSON,
    METRIC,
    READING,
    SEARCH,
    penalties_of,
    with_options,
    with_storage,
)
from dask_dpmeans.cli.place import reading
from dask_dpmeans.cli.tables import say_path, say_tree, seen
from dask_dpmeans.estimate import counted
from dask_dpmeans.estimators import load
from dask_dpmeans.location import Location
from dask_dpmeans.penalty import USUAL_PENALTIES, farthest_first, penalty_for, penalty_path, write_path
from dask_dpmeans.progress import progress
from dask_dpmeans.store import RunStore
from dask_dpmeans.tree import cluster_tree, write_tree


@click.command("penalty", short_help="Find the penalty for about so many clusters.", epilog=DATA)
@click.argument("data")
@click.option("-k", "--clusters", type=int, required=True, help="About how many clusters there should be.")
@click.option("--fit", "fitted", is_flag=True, help="Find, by bisection, the penalty at which fits give so many.")
@click.option("--search", is_flag=True, help="Find it as a price, by searches; implies --fit.")
@FULL
@METRIC
@with_options(*READING)
@JSON
def penalty_command(
    data: str, clusters: int, fitted: bool, search: bool, full: bool, seed: int | None, as_json: bool, **how: Any
) -> None:
    """The penalty that gives about so many clusters of the rows of DATA.

    By farthest-first traversal (Kulis & Jordan 2012, section 6.1), and where asked by what fits give.
    """
    idle = [name for name, given in (("--full", full), ("--seed", seed is not None)) if given]
    if idle and not (fitted or search):
        raise click.UsageError(f"{idle[0]} is about fits, and none is asked for: give --fit or --search too")
    with reading(data, **how) as rows, progress(as_json) as shown:
        rows["on_pass"] = shown.watch
        found = farthest_first(k=clusters, **rows)
        aimed = (
            penalty_for(n_clusters=clusters, search=search, full=full, random_state=seed, **rows)
            if fitted or search
            else None
        )
    if as_json:
        first = {"penalty": found.penalty, "penalties": found.penalties.tolist(), "rows": found.rows.tolist()}
        fit_found = aimed and aimed._asdict()
        click.echo(
            json.dumps({"event": "penalty", "farthest_first": first | {"n_passes": found.n_passes}, "fit": fit_found})
        )
        return
    click.echo(f"farthest-first  {found.penalty:.9g} for {counted(clusters, 'cluster')}, as a radius")
    if aimed is not None:
        jumps = f": no penalty tried gives {clusters:,}" * (aimed.n_clusters != clusters)
        click.echo(
            f"by fits         {aimed.penalty:.9g}, {counted(aimed.n_clusters, 'cluster')} as a "
            f"{'price' if search else 'radius'}, of {seen(aimed)}{jumps}"
        )


@click.command("path", short_help="Fit many penalties, and see how many clusters each gives.", epilog=DATA)
@click.argument("data")
@click.argument("out", required=False)
@click.option("--penalties", callback=penalties_of, help="Penalties to try, such as 1,2,4.")
@click.option("--from", "low", type=float, help="The lowest of some in even steps of the logarithm, ...")
@click.option("--to", "high", type=float, help="... the highest, ...")
@click.option("--number", type=click.IntRange(2), help=f"... and how many, {USUAL_PENALTIES} by default.")
@SEARCH
@FULL
@METRIC
@click.option("--halvings", default=0, show_default=True, help="Fit halves of the rows too, and see how they agree.")
@click.option(
    "--summary-rows",
    type=int,
    help="Of what stands for twice as many or more. By default 16,384, or 64 for each cluster of the lowest penalty.",
)
@click.option("--max-clusters", type=int, help="Stop with an error where there are more.")
@with_options(*READING)
@FORCE
@JSON
def path_command(
    data: str,
    out: str | None,
    penalties: list[float] | None,
    low: float | None,
    high: float | None,
    number: int | None,
    seed: int | None,
    force: bool,
    as_json: bool,
    search: bool,
    full: bool,
    halvings: int,
    summary_rows: int | None,
    max_clusters: int | None,
    **how: Any,
) -> None:
    """How many clusters of the rows of DATA each penalty gives, and over which penalties a number stands.

    By default 40 penalties, from one that gives about 50 clusters to one that gives one.  Written to OUT too, a Zarr
    group, where that is given.
    """
    if (low is None) != (high is None) or (penalties is not None and low is not None):
        raise click.UsageError("give --penalties, or --from and --to, or neither")
    if number is not None and low is None:
        raise click.UsageError("--number says how many penalties lie from --from to --to: give these too")
    if low is not None and high is not None:
        if not 0 < low < high < math.inf:
            raise click.UsageError(f"--from {low:g} must be > 0 and below --to {high:g}")
        penalties = np.geomspace(low, high, number or USUAL_PENALTIES).tolist()
    target = None if out is None else Location.at(out, how["storage_options"])
    if target is not None:
        RunStore.at(target).check_target("path", [data, how["weights"]], force=force)
    options: dict[str, Any] = {"search": search, "full": full, "halvings": halvings, "summary_rows": summary_rows}
    with reading(data, **how) as rows, progress(as_json) as shown:
        options |= {"max_clusters": max_clusters, "random_state": seed, "on_pass": shown.watch}
        found = penalty_path(penalties=penalties, **options, **rows)
    if target is not None:
        write_path(found, target, force=force)
    say_path(found, out, as_json)


@click.command("tree", short_help="Cluster the clusters of a run, level by level.")
@click.argument("run")
@click.argument("out", required=False)
@click.option(
    "--penalties", callback=penalties_of, help="One level each, rising, such as 1e3,1e4. By default they double."
)
@with_storage
@FORCE
@JSON
def tree_command(
    run: str,
    out: str | None,
    penalties: list[float] | None,
    storage_options: dict[str, Any],
    force: bool,
    as_json: bool,
) -> None:
    """Cluster the clusters of RUN, level by level up to one; written to OUT too, a Zarr group, where that is given."""
    target = None if out is None else Location.at(out, storage_options)
    if target is not None:
        RunStore.at(target).check_target("tree", [run], force=force)
    found = cluster_tree(load(Location.at(run, storage_options)), penalties, run=run)
    if target is not None:
        write_tree(found, target, force=force)
    say_tree(found, out, as_json)
