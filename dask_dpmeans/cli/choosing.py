"""Commands that help to choose: penalties, and levels of clusters."""

import json
import math
from typing import Any

import click
import numpy as np

from dask_dpmeans.api.loading import load
from dask_dpmeans.cli.following import following
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
from dask_dpmeans.cli.place import reading, resumable
from dask_dpmeans.cli.progress import progress
from dask_dpmeans.cli.tables import say_path, say_tree, seen
from dask_dpmeans.errors import InputError
from dask_dpmeans.selection.penalty import (
    PenaltyPath,
    farthest_first,
    penalty_for,
    penalty_path,
    read_path,
    stored_path,
)
from dask_dpmeans.selection.tree import cluster_tree, write_tree
from dask_dpmeans.selection.trial_fits import USUAL_PENALTIES
from dask_dpmeans.storage.location import Location
from dask_dpmeans.storage.run_store import RunStore
from dask_dpmeans.text import counted


@click.command("penalty", epilog=DATA)
@click.argument("data")
@click.option("-k", "--clusters", type=int, required=True, help="About how many clusters there should be.")
@click.option("--fit", "fitted", is_flag=True, help="Find, by bisection, the penalty at which fits give so many.")
@click.option("--search", is_flag=True, help="Find it as a price, by searches; implies --fit.")
@FULL
@METRIC
@click.option(
    "--checkpoint",
    metavar="PLACE",
    help="Keep fits in this folder or URL until the penalty is found: the same command after a stop goes on from them.",
)
@with_options(*READING)
@JSON
def penalty_command(
    data: str,
    clusters: int,
    fitted: bool,
    search: bool,
    full: bool,
    checkpoint: str | None,
    seed: int | None,
    as_json: bool,
    **how: Any,
) -> None:
    """The penalty that gives about so many clusters of the rows of DATA.

    By farthest-first traversal (Kulis & Jordan 2012, section 6.1), and where asked by what fits give.
    """
    flags = (("--full", full), ("--seed", seed is not None), ("--checkpoint", checkpoint is not None))
    idle = [name for name, given in flags if given]
    if idle and not (fitted or search):
        raise click.UsageError(f"{idle[0]} is about fits, and none is asked for: give --fit or --search too")
    place = None if checkpoint is None else Location.at(checkpoint, how["storage_options"])
    if place is not None:
        RunStore.at(place).check_target("penalty", [data, how["weights"]], force=False, resume=True)
    aimed = None
    options: dict[str, Any] = {"search": search, "full": full, "random_state": seed, "checkpoint": place}
    with resumable(place, "the same command"), reading(data, **how) as rows, progress(as_json) as shown:
        rows["on_pass"] = shown.watch
        found = farthest_first(k=clusters, **rows)
        if fitted or search:
            aimed = penalty_for(n_clusters=clusters, **options, **rows)
    if as_json:
        first = {"penalty": found.penalty, "penalties": found.penalties.tolist(), "rows": found.rows.tolist()}
        fit_found = aimed and aimed._asdict()
        click.echo(
            json.dumps({"event": "penalty", "farthest_first": first | {"n_passes": found.n_passes}, "fit": fit_found})
        )
        return
    click.echo(f"farthest-first  {found.penalty:.9g} for {counted(clusters, 'cluster')}, as a radius")
    if aimed is None:
        click.echo(f"next            {following(data, found.penalty)}")
    else:
        jumps = f": no penalty tried gives {clusters:,}" * (aimed.n_clusters != clusters)
        click.echo(
            f"by fits         {aimed.penalty:.9g}, {counted(aimed.n_clusters, 'cluster')} as a "
            f"{'price' if search else 'radius'}, of {seen(aimed)}{jumps}"
        )
        click.echo(f"next            {following(data, aimed.penalty, search=search, seed=aimed.random_state)}")


@click.command("path", epilog=DATA)
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
@click.option("--resume", is_flag=True, help="Go on with the path that was begun in OUT.")
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
    resume: bool,
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
    if resume and out is None:
        raise click.UsageError("--resume goes on with the path in OUT, and none is given")
    if resume and force:
        raise click.UsageError("--resume goes on with what is there, --force removes it: give one of them")
    target = None if out is None else Location.at(out, how["storage_options"])
    options: dict[str, Any] = {"search": search, "full": full, "halvings": halvings, "summary_rows": summary_rows}
    if target is not None:
        store = RunStore.at(target)
        store.check_target("path", [data, how["weights"]], force=force, resume=resume)
        if resume and store.finished():
            found = _standing(target, options | {"penalties": penalties}, seed)
            say_path(found, out, as_json, _onward(found, data))
            return
    options |= {"max_clusters": max_clusters, "random_state": seed}
    with resumable(target), reading(data, **how) as rows, progress(as_json) as shown:
        rows["on_pass"] = shown.watch
        if target is None:
            found = penalty_path(penalties=penalties, **options, **rows)
        else:
            found = stored_path(out=target, penalties=penalties, resume=resume, force=force, **options, **rows)
    say_path(found, out, as_json, _onward(found, data))


def _onward(found: PenaltyPath, data: str) -> str | None:
    """The command that fits at the penalty that a path proposes, if it proposes one."""
    if found.penalty is None or not found.search:
        return None
    return following(data, found.penalty, search=True, seed=found.random_state)


def _standing(target: Location, asked: dict[str, Any], seed: int | None) -> PenaltyPath:
    """The whole path in a store, if it is the one that is asked for."""
    found = read_path(target)
    there = found.asked["parameters"] | {"seed": found.random_state}
    here = asked | ({} if seed is None else {"seed": seed})
    if here["penalties"] is not None:
        here["penalties"] = sorted(set(here["penalties"]))
    changed = [f"{name} {there[name]}, not {value}" for name, value in here.items() if there[name] != value]
    if changed:
        raise InputError(f"{target.url} is a path of other parameters: {'; '.join(changed)}; use --force to start anew")
    return found


@click.command("tree")
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
