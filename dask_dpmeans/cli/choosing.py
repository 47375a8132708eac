"""The commands that help to choose a penalty or a level of clusters."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import Any

import click
from click.core import ParameterSource

import dask_dpmeans
from dask_dpmeans import storage
from dask_dpmeans.cli import library
from dask_dpmeans.cli import options as option
from dask_dpmeans.cli.absent import DATA_ARGUMENT, RUN_ARGUMENT
from dask_dpmeans.cli.choices import USUAL_PENALTIES
from dask_dpmeans.cli.compute import open_inputs
from dask_dpmeans.cli.fitting import fit_command
from dask_dpmeans.cli.group import CommandWithHeadings, print_lines
from dask_dpmeans.cli.resuming import check_resume_or_force, printing, resumable
from dask_dpmeans.errors import InputError, redact
from dask_dpmeans.flags import columns_text

PRICES = ("discount", "outlier_penalty")
"""Options of the price of a cluster, and of an outlier."""
OWN_OPTIONS = ("data", "search", "seed", "penalty", "resume", "force", "as_json")
"""Options that are not copied to the next command."""


@option.with_options(
    click.command("penalty", CommandWithHeadings, epilog=option.DATA),
    DATA_ARGUMENT,
    click.option(
        "-k", "--clusters", type=int, required=True, help="About how many clusters there should be."
    ),
    click.option(
        "--fit", "fitted", is_flag=True, help="Also find the penalty by fits, with bisection."
    ),
    option.flag("--search", help="Also find it as a price, by searches; includes --fit."),
    option.FULL,
    *option.COSTS,
    click.option(
        "--checkpoint",
        metavar="STORE",
        help="Save finished fits in this folder or URL until the penalty is found. After a stop, the same command "
        "continues with them.",
    ),
    *option.READING_OPTIONS,
    option.JSON,
)
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
    """Find a penalty that gives about K clusters of the rows of DATA.

    The first answer comes from farthest-first traversal (Kulis & Jordan 2012, section 6.1). With
    --fit or --search, fits give a second answer.
    """
    prices = {name: how.pop(name) for name in PRICES}
    flags = {
        "--full": full,
        "--seed": seed is not None,
        "--checkpoint": checkpoint is not None,
        "--discount": prices["discount"] > 0,
        "--outlier-penalty": prices["outlier_penalty"] is not None,
    }
    fitted = fitted or search
    if not fitted:
        _refuse_options_of_fits(flags)
    store = _target(checkpoint, "penalty", [data, how["weights"]], how, resume=True)
    options: dict[str, Any] = {"search": search, "full": full, "random_state": seed, **prices}
    by_fits, opened = None, open_inputs(data, **how)
    with resumable(store, "the same command"), opened as rows, library.progress(as_json) as shown:
        rows["on_pass"] = shown.watch
        found = dask_dpmeans.penalty.farthest_first(k=clusters, **rows)
        if fitted:
            by_fits = dask_dpmeans.penalty.penalty_for(
                n_clusters=clusters, checkpoint=store, **options, **rows
            )
    if as_json:
        print_lines(json.dumps(_penalty_event(found, by_fits)))
        return
    for_clusters = f"for {library.format_count(clusters, 'cluster')}, as a radius"
    print_lines(f"farthest-first  {found.penalty:.9g} {for_clusters}")
    following = _next_command(data, found.penalty)
    if by_fits is not None:
        print_lines(f"by fits         {_penalty_line(by_fits, 'price' if search else 'radius')}")
        following = _next_command(data, by_fits.penalty, search=search, seed=by_fits.random_state)
    print_lines(f"next            {following}")


def _refuse_options_of_fits(flags: Mapping[str, bool]) -> None:
    """Raise an error for the first option that is given, of those for fits alone."""
    for name, given in flags.items():
        if given:
            raise click.UsageError(f"{name} is an option for fits: give --fit or --search too")


def _target(
    place: str | None,
    kind: str,
    inputs: list[str | None],
    how: dict[str, Any],
    *,
    force: bool = False,
    resume: bool = False,
) -> storage.Location | None:
    """Return the place of an output, if one is given, after a check that it can be written."""
    if place is None:
        return None
    target = storage.Location.at(place, how["storage_options"])
    storage.RunStore.at(target).check_target(kind, inputs, force=force, resume=resume)
    return target


def _penalty_event(
    found: dask_dpmeans.penalty.FarthestFirst, by_fits: dask_dpmeans.penalty.PenaltyFor | None
) -> dict[str, Any]:
    first = {
        "penalty": found.penalty,
        "penalties": found.penalties.tolist(),
        "rows": found.rows.tolist(),
        "n_passes": found.n_passes,
    }
    return {"event": "penalty", "farthest_first": first, "fit": by_fits and by_fits._asdict()}


def _penalty_line(found: dask_dpmeans.penalty.PenaltyFor, read_as: str) -> str:
    clusters = library.format_count(found.n_clusters, "cluster")
    line = f"{found.penalty:.9g}, {clusters} as a {read_as}, of {library.tables.rows_seen(found)}"
    if found.n_clusters != found.wanted:
        line += f": no penalty tried gives {found.wanted:,}"
    return line


@option.with_options(
    click.command("path", CommandWithHeadings, epilog=option.DATA),
    DATA_ARGUMENT,
    click.argument("out", required=False),
    click.option(
        "--penalties", callback=option.penalties_of, help="Penalties to try, such as 1,2,4."
    ),
    click.option(
        "--from", "low", type=float, help="Lowest of penalties in even steps of the logarithm."
    ),
    click.option("--to", "high", type=float, help="Highest of these penalties."),
    click.option(
        "--number",
        type=click.IntRange(2),
        help=f"Number of these penalties, {USUAL_PENALTIES} by default.",
    ),
    option.SEARCH,
    option.FULL,
    *option.COSTS,
    option.number(
        "--halvings",
        0,
        "How often to split the rows in two halves, fit both, and compare the labels.",
    ),
    click.option(
        "--summary-rows",
        type=int,
        help="Rows of a summary, which is used for more than twice as many rows. The default is 16,384, or 64 for each "
        "cluster of the lowest penalty.",
    ),
    option.MAX_CLUSTERS,
    *option.READING_OPTIONS,
    option.flag("--resume", help="Continue with the path that was begun in OUT."),
    option.FORCE,
    option.JSON,
)
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
    max_clusters: int | None,
    **how: Any,
) -> None:
    """Fit the rows of DATA at many penalties, and show the number of clusters of each.

    The default is 40 penalties, from one that gives about 50 clusters to one that gives one
    cluster. The table shows the intervals of penalties that give the same number of clusters. With
    OUT, the path is also written there, as a Zarr group.
    """
    penalties = _penalties(penalties, low, high, number)
    if resume and out is None:
        raise click.UsageError("--resume goes on with the path in OUT: give OUT too")
    check_resume_or_force(resume, force)
    options: dict[str, Any] = {"penalties": penalties} | {
        name: how.pop(name) for name in ("search", "full", "halvings", "summary_rows")
    }
    prices = {name: how.pop(name) for name in PRICES}
    target = _target(out, "path", [data, how["weights"]], how, force=force, resume=resume)
    if resume and target is not None and storage.RunStore.at(target).finished():
        kind = {name: how[name] for name in ("divergence", "missing")}
        found = _finished_path(target, options | prices | kind, seed)
    else:
        options |= {"max_clusters": max_clusters, "random_state": seed, **prices}
        with (
            resumable(target),
            open_inputs(data, **how) as rows,
            library.progress(as_json) as shown,
        ):
            rows["on_pass"] = shown.watch
            if target is None:
                found = dask_dpmeans.penalty.penalty_path(**options, **rows)
            else:
                found = dask_dpmeans.penalty.stored_path(
                    out=target, resume=resume, force=force, **options, **rows
                )
    with printing(target):
        library.tables.say_path(found, out, as_json, _proposed_command(found, data))


def _penalties(
    given: list[float] | None, low: float | None, high: float | None, number: int | None
) -> list[float] | None:
    """Return the penalties of the options, or None for the default ones."""
    if (low is None) != (high is None) or (given is not None and low is not None):
        raise click.UsageError("give --penalties, or --from and --to, or neither")
    if low is None or high is None:
        if number is not None:
            raise click.UsageError(
                "--number says how many penalties lie from --from to --to: give these too"
            )
        return given
    if not 0 < low < high < math.inf:
        raise click.UsageError(f"--from {low:g} must be > 0 and below --to {high:g}")
    spaced: list[float] = library.numpy.geomspace(low, high, number or USUAL_PENALTIES).tolist()
    return spaced


def _proposed_command(found: dask_dpmeans.penalty.PenaltyPath, data: str) -> str | None:
    """Return the command that fits at the penalty that a path proposes, if there is one."""
    if found.penalty is None or not found.search:
        return None
    return _next_command(data, found.penalty, search=True, seed=found.random_state)


def _finished_path(
    target: storage.Location, asked: dict[str, Any], seed: int | None
) -> dask_dpmeans.penalty.PenaltyPath:
    """Return a finished path, if it has the parameters that are asked for."""
    found = dask_dpmeans.penalty.read_path(target)
    there = dask_dpmeans.DPMeans().get_params(deep=False) | found.asked["parameters"]
    there["seed"] = found.random_state
    if seed is not None:
        asked = asked | {"seed": seed}
    if asked["penalties"] is not None:
        asked = asked | {"penalties": sorted(set(asked["penalties"]))}
    changed = [
        f"{name} {there[name]}, not {value}"
        for name, value in asked.items()
        if there[name] != value
    ]
    if changed:
        differences = "; ".join(changed)
        raise InputError(
            f"{target.url} is a path of other parameters: {differences}; use --force to start anew"
        )
    return found


@option.with_options(
    click.command("tree", CommandWithHeadings),
    RUN_ARGUMENT,
    click.argument("out", required=False),
    click.option(
        "--penalties",
        callback=option.penalties_of,
        help="Penalty of each level, rising, such as 1e3,1e4. By default, they double.",
    ),
    option.with_storage,
    option.FORCE,
    option.JSON,
)
def tree_command(
    run: str, out: str | None, penalties: list[float] | None, force: bool, as_json: bool, **how: Any
) -> None:
    """Cluster the clusters of RUN, level by level, up to one cluster.

    With OUT, the tree is also written there, as a Zarr group.
    """
    target = _target(out, "tree", [run], how, force=force)
    found = library.tree.cluster_tree(
        dask_dpmeans.load(storage.Location.at(run, how["storage_options"])), penalties, run=run
    )
    if target is not None:
        library.tree.write_tree(found, target, force=force)
    with printing(target):
        library.tables.say_tree(found, out, as_json)


def _next_command(
    data: str, penalty: float, *, search: bool = False, seed: int | None = None
) -> str:
    """Return the command that fits `data` with a penalty.

    Options for reading are copied from this command.
    """
    context = click.get_current_context()
    known = {each.name for each in fit_command.params} - set(OWN_OPTIONS)
    options: list[str] = []
    for each in context.command.params:
        given = context.get_parameter_source(str(each.name)) is ParameterSource.COMMANDLINE
        if given and each.name in known:
            options += _words(each.opts[0], context.params[str(each.name)])
    names = (library.commands.RUN, *(f"run-{number}.zarr" for number in range(2, 100)))
    run = next((name for name in names if not os.path.exists(name)), library.commands.RUN)
    return library.commands.next_fit(
        redact(data), penalty, search=search, seed=seed, options=options, run=run
    )


def _words(flag: str, value: object) -> list[str]:
    """Return an option as words, without the values of storage options, which may be secret."""
    if value is True:
        return [flag]
    if isinstance(value, dict) and flag == "--storage-option":
        return [word for key in value for word in (flag, f"{key}=...")]
    if isinstance(value, dict):
        return [flag, columns_text(value)]
    if isinstance(value, list):
        return [flag, ",".join(map(str, value))]
    return [flag, redact(value) if isinstance(value, str) else json.dumps(value)]
