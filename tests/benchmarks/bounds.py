"""How far above the optimum searches are at most: lower bounds at the price of a known number of clusters.

The sets are iris and wine (scaled to unit variance), and those of `--data FOLDER`.  `penalty_for` finds the price.
"""

from collections.abc import Iterator
from pathlib import Path
from time import process_time

import click
import numpy as np
from labelled_sets import Rows
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import scale

from dask_dpmeans import DPMeans, lower_bound
from dask_dpmeans.selection.penalty import penalty_for

FILES = {
    "s1": 15,
    "s2": 15,
    "s3": 15,
    "s4": 15,
    "a1": 20,
    "a2": 35,
    "a3": 50,
    "shapes/sipu_r15": 15,
    "shapes/sipu_d31": 31,
    "published/bavaria1": 9,
    "published/ruspini": 4,
    "published/tsplib1060": 30,
    "vehicle": 4,
    "birch1": 100,
    "birch2": 100,
}
"""Numbers of clusters by file."""


def sets(data: Path | None) -> Iterator[tuple[str, Rows, int]]:
    """Name, rows and number of clusters of each set."""
    yield "iris", load_iris().data, 3
    yield "wine", scale(load_wine().data), 3
    for name, k in FILES.items() if data is not None else ():
        with np.load(data / f"{name}.npz") as file:
            yield Path(name).name, file["X"].astype(np.float64), k


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), help="Folder of the sets.")
@click.option("--only", multiple=True, help="Names of sets.")
def main(data: Path | None, only: tuple[str, ...]) -> None:
    """Print the gap of a search of each set, with the seconds of the processor for the bound."""
    print("set              rows x columns     k  gap       bound by         seconds")
    for name, rows, k in sets(data):
        if only and name not in only:
            continue
        penalty = penalty_for(rows, k, search=True, random_state=0).penalty
        model = DPMeans(penalty, search=True, random_state=0).fit(rows)
        before = process_time()
        found = lower_bound(model, rows, threads=1)
        seconds, shape = process_time() - before, f"{rows.shape[0]:,} x {rows.shape[1]}"
        print(
            f"{name:15}  {shape:15}  {found.n_clusters:4}  {found.gap:.1e}  {found.method:15}  {seconds:7.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
