"""The page of a path of penalties."""

import shlex
from typing import Any

import numpy as np

from dask_dpmeans.checks import format_column, format_count
from dask_dpmeans.figures import plot
from dask_dpmeans.flags import flags
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.methods.dpmeans.path import longest
from dask_dpmeans.report import origin
from dask_dpmeans.report.page import Page, Picture, Table, lines_of
from dask_dpmeans.selection import commands
from dask_dpmeans.selection.penalty import PenaltyPath, penalty_path, read_path
from dask_dpmeans.storage.location import AnyPlace
from dask_dpmeans.storage.output import Output

CAPTION = "Number of clusters and objective over the penalty"
SHADED = "; the longest interval with the same number of clusters is shaded"


def page(store: AnyPlace) -> Page:
    """Return the contents of the page of a stored path."""
    path = read_path(store)
    request, caption = commands.path_request(path), f"{CAPTION}{SHADED * path.search}."
    intervals = [_intervals(path)] if path.intervals else []
    facts = {"Result": _result(path), "Parameters": _parameters(path)}
    facts["Input"] = origin.rows(request)
    return Page(
        store=Output.at(store).shown,
        headline=_headline(path),
        warnings=[*warnings_of(path), *origin.warnings(request)],
        facts=facts,
        pictures=[Picture.of("Path", caption, lambda: plot.path(path))],
        tables=[*intervals, _penalties(path)],
        call=call(path),
        unknown=origin.explain_unknown(request),
        command=command(path),
        versions=dict(request.versions),
    )


def _headline(path: PenaltyPath) -> str:
    most, least, tried = int(path.n_clusters.max()), int(path.n_clusters.min()), len(path.penalties)
    span = f"from {most:,} clusters to {least:,}"
    if most == least:
        span = format_count(most, "cluster")
    one, many = ("price", "prices") if path.search else ("radius", "radii")
    return f"{tried:,} {many if tried > 1 else one}: {span} of {format_count(_n_rows(path), 'row')}"


def _n_rows(path: PenaltyPath) -> int:
    return commands.path_request(path).input.shape[0]


def warnings_of(path: PenaltyPath) -> list[str]:
    """Return warnings about a path, but not about its input."""
    found = []
    if not path.full:
        found.append(
            f"Fits saw a summary of {path.rows_used:,} weighted rows instead of all {_n_rows(path):,}: all numbers "
            "are estimates."
        )
        if not path.search:
            found.append(
                "Far rows, which open clusters, are not all in a summary: with radii, a fit of all rows gives more "
                "clusters."
            )
    if path.caution:
        found.append(f"{path.caution[0].upper()}{path.caution[1:]}; raise summary_rows.")
    if path.search and path.longest is None:
        found.append(
            "No interval lies between the largest number of clusters and one cluster: try more penalties."
        )
    return found


def _result(path: PenaltyPath) -> dict[str, str]:
    facts = {}
    interval = longest(path.intervals) if path.search else None  # with radii it means little
    if interval is not None:
        facts["clusters of the longest interval"] = f"{interval.n_clusters:,}"
        facts["longest interval"] = f"{interval.low:.6g} to {interval.high:.6g}"
        facts["length of the interval, in the logarithm"] = f"{interval.length:.2f}"
        facts["middle of the interval, a price"] = f"{interval.middle:.9g}"
        facts["fit with this price"] = commands.after_path(path) or ""
    seen = "all" if path.full else "a summary of"
    return facts | {"rows that fits saw": f"{seen} {path.rows_used:,}"}


def _parameters(path: PenaltyPath) -> dict[str, str]:
    """Return the parameters, also those with default values."""
    asked, penalties = path.asked["parameters"], path.penalties
    facts = {name: str(value) for name, value in asked.items() if value is not None}
    chosen = ", by default" * (asked["penalties"] is None)
    facts["penalties"] = (
        f"{len(penalties):,} from {penalties[0]:.6g} to {penalties[-1]:.6g}{chosen}"
    )
    return facts | {"random_state": str(path.random_state)}


def _intervals(path: PenaltyPath) -> Table:
    columns = [
        format_column([each.low for each in path.intervals]),
        format_column([each.high for each in path.intervals]),
        [f"{each.n_clusters:,}" for each in path.intervals],
        [f"{each.length:.2f}" for each in path.intervals],
    ]
    caption = "The length is the logarithm of to / from. A long interval suggests the number of clusters in the data."
    return Table("Intervals", caption, ["from", "to", "clusters", "length"], lines_of(columns))


def _penalties(path: PenaltyPath) -> Table:
    numbers = [f"{k:,}" for k in path.n_clusters]
    columns = [format_column(path.penalties), numbers, _long(path.objectives), _long(path.inertias)]
    names = ["penalty", "clusters", "objective, J", "inertia"]
    caption = "The objective is inertia + penalty x clusters."
    if path.stability is not None:
        names.append("stability")
        columns.append([f"{index:z.2f}" for index in path.stability])
        caption += " Stability is the mean adjusted Rand index between fits of two halves of the rows: 1 if they agree."
    return Table("Penalties tried", caption, names, lines_of(columns))


def _long(values: Float64Array) -> list[str]:
    return [f"{value:.9g}" for value in values.tolist()]


# How to reproduce


def call(path: PenaltyPath) -> str:
    """Return Python code that makes the path again."""
    asked, spaced, request = _given_parameters(path), _even_steps(path), commands.path_request(path)
    penalties = asked.pop("penalties", None)
    arguments, imports = [origin.data(request)], ""
    if penalties is not None and spaced is not None:
        imports = "import numpy as np\n\n"
        arguments.append(f"np.geomspace({', '.join(map(repr, spaced))})")
    elif penalties is not None:
        arguments.append(repr(penalties))
    arguments += [f"{name}={value!r}" for name, value in asked.items()]
    arguments += origin.parts(request)
    imports += "from dask_dpmeans.selection.penalty import penalty_path, write_path\n\n"
    inner = origin.arguments(arguments)
    return f"{imports}path = penalty_path(\n{inner})\nwrite_path(path, {origin.AGAIN!r})"


def command(path: PenaltyPath) -> str | None:
    """Return the command that makes the path again; None if rows or weights have no path."""
    asked, spaced, request = _given_parameters(path), _even_steps(path), commands.path_request(path)
    reading = commands.words(request)
    if reading is None:
        return None
    penalties = asked.pop("penalties", None)
    words = ["dask-dpmeans", "path", str(commands.sources(request)["data"]), origin.AGAIN]
    if penalties is not None and spaced is not None:
        low, high, number = map(repr, spaced)
        words += ["--from", low, "--to", high, "--number", number]
    elif penalties is not None:
        words += ["--penalties", ",".join(map(repr, penalties))]
    return shlex.join([*words, *flags(asked), *reading])


def _given_parameters(path: PenaltyPath) -> dict[str, Any]:
    """Return the parameters that differ from their defaults, and the seed."""
    given = path.asked["parameters"] | {"random_state": path.random_state}
    return origin.differing_parameters(given, penalty_path)


def _even_steps(path: PenaltyPath) -> tuple[float, float, int] | None:
    """Return ends and number of penalties in even steps of the logarithm, or None."""
    low, high, number = float(path.penalties[0]), float(path.penalties[-1]), len(path.penalties)
    if number > 1 and np.array_equal(np.geomspace(low, high, number), path.penalties):
        return low, high, number
    return None
