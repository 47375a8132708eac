"""A density picture of many rows, against one pass of a fit over the same rows.

A picture goes through the rows three times: to check them, for the directions of their greatest variance, and to count
them.  Both are timed with the rows in memory, and then with a store whose rows are read anew in each pass.  The pass is
the one that ends a sweep against given centers (no row objects), of which nothing is known beforehand.
"""

from functools import partial
from pathlib import Path
from typing import Any

import click
import zarr
from out_of_core import Layout, folder, passed, stored, sweep_of
from ratios import Line, interleaved, ratio_line, seconds_line, table, timed

from dask_dpmeans import DPMeans
from dask_dpmeans.figures.data import Density, density
from dask_dpmeans.sources import as_source, decoded_bytes

THREADS = 2
MOST_PASSES = 3
"""The most times one pass that a picture may take."""

PASS, PICTURE = "pass", "picture"


def model_of(path: Path, k: int) -> DPMeans:
    """One cluster for each of the first k rows."""
    rows = zarr.open_array(path, mode="r")[:k]
    return DPMeans(1e-9, max_iter=1).fit(rows)


def compare(path: Path, k: int, repeats: int, *, streamed: bool) -> tuple[Density, list[Line]]:
    """A picture of a store's rows, or of these in memory, and the table of times."""
    stored_rows = zarr.open_array(path, mode="r")
    rows = stored_rows if streamed else stored_rows[:]
    where: dict[str, Any] = {"threads": THREADS}
    if streamed:
        where |= {"memory_limit": decoded_bytes(stored_rows)}
    picture = partial(density, rows, model_of(path, k), **where)
    one_pass = partial(passed, as_source(rows, **where), sweep_of(path, k))
    times = interleaved({PASS: timed(one_pass), PICTURE: timed(picture)}, repeats)
    lines = [seconds_line(times, name) for name in times]
    return picture(), [*lines, ratio_line(times, PICTURE, PASS, most=MOST_PASSES)]


@click.command(help=__doc__)
@click.argument("path", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("-n", default=10_000_000, show_default=True, help="Rows.")
@click.option("-d", default=4, show_default=True, help="Columns.")
@click.option("-k", default=16, show_default=True, help="Centers.")
@click.option("--repeats", default=5, show_default=True, help="Rounds.")
def main(path: Path | None, n: int, d: int, k: int, repeats: int) -> None:
    """Print the tables.  The store in the folder PATH is kept and used again."""
    layout = Layout.of(4 * n * d / 1e9, d)
    with folder(path) as place:
        rows = place / "rows.zarr"
        stored(rows, layout)
        for streamed in (False, True):
            where = "read in each pass" if streamed else "in memory"
            _, lines = compare(rows, k, repeats, streamed=streamed)
            click.echo(
                table(f"n={layout.n:,} d={d} k={k}, float32, {THREADS} threads, {where}", lines)
            )


if __name__ == "__main__":
    main()
