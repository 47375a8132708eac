"""
Customers: a table with holes, mixed columns and an outlier
===========================================================

Cluster a data frame as it is, without a given number of clusters.

The columns are numbers, counts and categories. Some ages and channels are not known, and one basket
is a mistake of typing. Each column has its own cost: squared distances for numbers, half the Poisson
deviance for counts, -log of its share for a category. Holes cost nothing. The rows that cost most,
about half a percent, are outliers, and belong to no cluster; without that share the one basket has
a cluster for itself.

The fit is stored as a run, and the run knows the columns by name: ``dask-dpmeans show`` prints them.
The picture shows how far the mean of each column in each cluster is from the mean of all rows. What
one sees: young people who come often by app, people around 48 who buy on the web, and old people who
buy much in the store.
"""

import tempfile
from importlib.util import find_spec
from pathlib import Path

import click
import numpy as np

from dask_dpmeans import DPMeans, fit
from dask_dpmeans.cli import main as dask_dpmeans

try:
    import pandas as pd
except ModuleNotFoundError as error:
    raise SystemExit('this example needs pandas: pip install "dask-dpmeans[examples]"') from error


def drawn(n: int = 900, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Return customers of three kinds, and their kinds, (n,)."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(3, n, p=[0.5, 0.35, 0.15])
    channel = np.where(rng.random(n) < 0.9, kind, rng.integers(3, size=n))
    table = pd.DataFrame(
        {
            "age": rng.normal(np.array([26, 48, 67])[kind], 6).round(),
            "visits": rng.poisson(np.array([12, 4, 1.5])[kind]),
            "basket": rng.lognormal(np.log([25, 60, 120])[kind], 0.3).round(2),
            "channel": pd.Categorical(np.array(["app", "web", "store"])[channel]),
        }
    )
    table.loc[rng.random(n) < 0.08, "age"] = np.nan
    table.loc[rng.random(n) < 0.05, "channel"] = None
    table.loc[17, "basket"] = 25_000
    return table, kind


def figure(path: Path, model: DPMeans) -> None:
    """Draw the profile of the clusters."""
    from dask_dpmeans.figures.plot import profile  # noqa: PLC0415  # it needs matplotlib

    profile(model).savefig(path, dpi=130)


@click.command()
@click.option("--figure", "path", type=click.Path(path_type=Path), help="Draw the profile.")
def main(path: Path | None) -> None:
    """Cluster customers."""
    if path is not None and find_spec("matplotlib") is None:
        raise click.ClickException(
            "a figure needs matplotlib: pip install 'dask-dpmeans[plot]', or leave --figure out"
        )
    customers, kind = drawn()
    told = {"divergence": {"visits": "poisson"}, "missing": "observed"}
    plain = DPMeans(**told, random_state=0).fit(customers)
    print(f"without outliers: {plain.n_clusters_} clusters")
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "customers.zarr")
        model = fit(customers, run, DPMeans(**told, outlier_share=0.005, random_state=0))
        dask_dpmeans(["show", str(run)], standalone_mode=False)
        labels = model.labels_.compute()  # read before the run is removed
    print(pd.crosstab(pd.Series(kind, name="kind"), pd.Series(labels, name="label")))
    print("outliers:", customers[labels == -1], sep="\n")
    if path is not None:
        figure(path, model)
        print(f"figure: {path}")


if __name__ == "__main__":
    main()
