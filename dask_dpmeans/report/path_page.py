"""What the page of a path of penalties says."""

import shlex
from typing import Any

import numpy as np

from dask_dpmeans.figures import plot
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.methods.dpmeans.path import longest
from dask_dpmeans.report import origin
from dask_dpmeans.report.page import Page, Picture, Table, lines_of
from dask_dpmeans.selection import commands
from dask_dpmeans.selection.penalty import PenaltyPath, penalty_path, read_path
from dask_dpmeans.storage.location import AnyPlace
from dask_dpmeans.storage.output import Output
from dask_dpmeans.text import counted, figures

CAPTION = "Clusters, and what they cost, over the penalty"
SHADED = "; the interval over which their number stands longest is shaded"


def page(store: AnyPlace) -> Page:
    """What the page of a stored path says."""
    path = read_path(store)
    request = commands.path_request(path)
    return Page(
        store=Output.at(store).shown,
        headline=_headline(path),
        warnings=[*warnings_of(path), *origin.warnings(request)],
        facts={"Result": _result(path), "Parameters": _parameters(path), "Input": origin.rows(request)},
        pictures=[Picture.of("Path", f"{CAPTION}{SHADED * path.search}.", lambda: plot.path(path))],
        tables=[*([_intervals(path)] if path.intervals else []), _penalties(path)],
        call=call(path),
        unknown=origin.unknown(request),
        command=command(path),
        versions=dict(request.versions),
    )


def _headline(path: PenaltyPath) -> str:
    most, least, tried = int(path.n_clusters.max()), int(path.n_clusters.min()), len(path.penalties)
    span = counted(most, "cluster") if most == least else f"from {most:,} clusters to {least:,}"
    as_what = ("price", "prices") if path.search else ("radius", "radii")
    return f"{tried:,} {as_what[tried > 1]}: {span} of {counted(_rows(path), 'row')}"


def _rows(path: PenaltyPath) -> int:
    """Rows that the path is of."""
    return commands.path_request(path).input.shape[0]


def warnings_of(path: PenaltyPath) -> list[str]:
    """What a reader should know of a path, its input aside."""
    said = []
    if not path.full:
        said.append(
            f"Fits saw a summary of {path.rows_used:,} weighted rows that stand for all {_rows(path):,}: the figures "
            "are about those of all."
        )
    if not path.full and not path.search:
        said.append("Far rows, which open clusters, are not all in a summary: as radii more clusters come of all rows.")
    if path.caution:
        said.append(f"{path.caution[0].upper()}{path.caution[1:]}; raise summary_rows.")
    if path.search and path.longest is None:
        said.append("No interval lies between that of the most clusters and that of one: try more penalties.")
    return said


def _result(path: PenaltyPath) -> dict[str, str]:
    """Facts by name."""
    found = {}
    interval = longest(path.intervals) if path.search else None  # of radii it says little
    if interval is not None:
        found["clusters of the longest interval"] = f"{interval.n_clusters:,}"
        found["its ends"] = f"{interval.low:.6g} to {interval.high:.6g}"
        found["its length, in the logarithm"] = f"{interval.length:.2f}"
        found["its middle, a price"] = f"{interval.middle:.9g}"
        found["what fits with it"] = commands.after_path(path) or ""
    return found | {"rows that fits saw": f"{'all' if path.full else 'a summary of'} {path.rows_used:,}"}


def _parameters(path: PenaltyPath) -> dict[str, str]:
    """Those that are set, be it by default."""
    asked = path.asked["parameters"]
    chosen = ", the usual ones" * (asked["penalties"] is None)
    said = {"penalties": f"{len(path.penalties):,} from {path.penalties[0]:.6g} to {path.penalties[-1]:.6g}{chosen}"}
    given = {name: str(value) for name, value in asked.items() if value is not None}
    return given | said | {"random_state": str(path.random_state)}


def _intervals(path: PenaltyPath) -> Table:
    """Over which penalties each number of clusters stands."""
    lows, highs = ([getattr(each, name) for each in path.intervals] for name in ("low", "high"))
    parts = [figures(lows), figures(highs), [f"{each.n_clusters:,}" for each in path.intervals]]
    parts.append([f"{each.length:.2f}" for each in path.intervals])
    caption = "The length is the logarithm of to / from: a number of clusters that the data has stands over a long one."
    return Table("Intervals", caption, ["from", "to", "clusters", "length"], lines_of(parts))


def _penalties(path: PenaltyPath) -> Table:
    """What each penalty that was tried gave."""
    parts = [figures(path.penalties), [f"{k:,}" for k in path.n_clusters], _long(path.objectives), _long(path.inertias)]
    columns, caption = (
        ["penalty", "clusters", "objective, J", "inertia"],
        "The objective is inertia + penalty x clusters.",
    )
    if path.stability is not None:
        columns.append("stability")
        parts.append([f"{index:.2f}" for index in path.stability])
        caption += " Stability is the mean adjusted Rand index of fits of halves of the rows: 1 where they agree."
    return Table("Penalties tried", caption, columns, lines_of(parts))


def _long(values: Float64Array) -> list[str]:
    return [f"{value:.9g}" for value in values.tolist()]


# How to make it again


def call(path: PenaltyPath) -> str:
    """Python that makes the path again."""
    asked, spaced, request = _asked(path), _spaced(path), commands.path_request(path)
    penalties = asked.pop("penalties", None)
    parts = [origin.data(request)]
    if penalties is not None:
        parts.append(f"np.geomspace({', '.join(map(repr, spaced))})" if spaced else repr(penalties))
    parts += [*(f"{name}={value!r}" for name, value in asked.items()), *origin.parts(request)]
    imports = "import numpy as np\n\n" * (penalties is not None and spaced is not None)
    imports += "from dask_dpmeans.selection.penalty import penalty_path, write_path\n\n"
    inner = "".join(f"    {part},\n" for part in parts)
    return f"{imports}path = penalty_path(\n{inner})\nwrite_path(path, {origin.AGAIN!r})"


def command(path: PenaltyPath) -> str | None:
    """The command that makes the path again; None where rows or weights have no path."""
    asked, spaced, request = _asked(path), _spaced(path), commands.path_request(path)
    reading = commands.words(request)
    if reading is None:
        return None
    penalties = asked.pop("penalties", None)
    words = ["dask-dpmeans", "path", str(commands.sources(request)["data"]), origin.AGAIN]
    if penalties is not None and spaced is not None:
        words += ["--from", repr(spaced[0]), "--to", repr(spaced[1]), "--number", str(spaced[2])]
    elif penalties is not None:
        words += ["--penalties", ",".join(map(repr, penalties))]
    return shlex.join([*words, *commands.flags(asked), *reading])


def _asked(path: PenaltyPath) -> dict[str, Any]:
    """Parameters that differ from their defaults, and the seed."""
    return origin.differing(path.asked["parameters"] | {"random_state": path.random_state}, penalty_path)


def _spaced(path: PenaltyPath) -> tuple[float, float, int] | None:
    """The ends and the number of penalties in even steps of the logarithm, if they are."""
    low, high, number = float(path.penalties[0]), float(path.penalties[-1]), len(path.penalties)
    even = number > 1 and np.array_equal(np.geomspace(low, high, number), path.penalties)
    return (low, high, number) if even else None
