"""How far above the optimum searches are at most: lower bounds at the price of a known number of clusters.

The sets are iris, wine (scaled to unit variance) and those of `--data FOLDER`.  Two more have 5,000
random rows in 12 columns: "blobs" from 20 normal distributions, and "noise" from one.  `penalty_for`
finds the price.
With `--hull` they are three small sets of FOLDER at the prices of the lower hull of their certified optima.
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
    "published/tsplib3038": 10,
    "published/image": 10,
    "published/page": 10,
    "vehicle": 4,
    "published/liver": 20,
    "birch1": 100,
    "birch2": 100,
}
"""Numbers of clusters by file."""


CERTIFIED = {
    "iris": (
        *(152.347951760358, 78.851441426146, 57.2284732142857, 46.4461820512821, 39.0399872460872),
        *(34.2982296650718, 29.9889439507861, 27.7860924173081, 25.834054819972511),
    ),
    "ruspini": (
        *(89337.832142857, 51063.4750456705, 12881.0512361466, 10126.7197881828, 8575.40687645688),
        *(7126.19854312354, 6149.639019314019, 5181.65183982684, 4446.28214285714),
    ),
    "bavaria1": (
        *(6.025472220938822e11, 2.94506562778027e11, 1.04474664100716e11, 5.97615267205269e10),
        *(3.59085384380298e10, 2.19832076153985e10, 1.33854150525813e10, 8.423750573163314e9),
        6.44648364287013e9,
    ),
}
"""Proved least squared errors of 2 to 10 clusters, by file of the folder `published`."""


def hull(errors: list[float]) -> Iterator[tuple[int, float, float]]:
    """Clusters, price and least objective at the ends and in the middle of the interval of each number.

    `errors` are of one cluster, two, ...; a number above the line of others is not best at any price.
    """
    best: list[int] = []
    for k in range(1, len(errors) + 1):
        while len(best) > 1 and price(errors, best[-2], best[-1]) <= price(errors, best[-1], k):
            best.pop()
        best.append(k)
    for lower, k, higher in zip(best, best[1:], best[2:], strict=False):
        high, low = price(errors, lower, k), price(errors, k, higher)
        for penalty in ((high * low) ** 0.5, low):
            yield k, penalty, errors[k - 1] + penalty * k


def price(errors: list[float], fewer: int, more: int) -> float:
    """At which two numbers of clusters have the same objective."""
    return (errors[fewer - 1] - errors[more - 1]) / (more - fewer)


def certificates(data: Path, only: tuple[str, ...]) -> None:
    """Print the gap to the least objective at each price, and the gap that is proved."""
    print("set        k  penalty      above the optimum  gap      bound by         seconds")
    for name, errors in CERTIFIED.items():
        if only and name not in only:
            continue
        with np.load(data / "published" / f"{name}.npz") as file:
            rows = file["X"].astype(np.float64)
        alone = float(((rows - rows.mean(axis=0)) ** 2).sum())
        for k, penalty, least in hull([alone, *errors]):
            model = DPMeans(penalty, search=True, effort="best", tol=0.0, random_state=0).fit(rows)
            before = process_time()
            found = lower_bound(model, rows, threads=1)
            print(
                f"{name:9} {k:2}  {penalty:<11.6g}  {model.objective_ / least - 1:17.0e}  {found.gap:.1e}  "
                f"{found.method:15}  {process_time() - before:7.1f}",
                flush=True,
            )


def sets(data: Path | None) -> Iterator[tuple[str, Rows, int]]:
    """Name, rows and number of clusters of each set."""
    yield "iris", load_iris().data, 3
    yield "wine", scale(load_wine().data), 3
    rng = np.random.default_rng(0)
    means, noise = rng.uniform(0, 10, (20, 12)), rng.standard_normal((5000, 12))
    yield "blobs", means[rng.integers(20, size=5000)] + noise, 20
    yield "noise", noise, 8
    for name, k in FILES.items() if data is not None else ():
        with np.load(data / f"{name}.npz") as file:
            yield Path(name).name, file["X"].astype(np.float64), k


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), help="Folder of the sets.")
@click.option("--only", multiple=True, help="Names of sets.")
@click.option("--hull", "of_hull", is_flag=True, help="Bounds beside certified optima.")
def main(data: Path | None, only: tuple[str, ...], of_hull: bool) -> None:
    """Print the gap of a search of each set, with the seconds of the processor for the bound."""
    if of_hull:
        if data is None:
            raise click.UsageError("--hull needs --data")
        certificates(data, only)
        return
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
