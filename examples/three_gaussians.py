"""
Three Gaussians: DP-means and a Gibbs sampler
=============================================

Compare DP-means with a Gibbs sampler (Kulis & Jordan 2012, figure 2a to 2c).

The paper does not state the means of its Gaussians. Here each Gaussian has 100 rows and covariance
I, and their means lie on a line, so far apart that the agreement comes near the published .89. The
rows are the rows of one seed. The penalty comes from the paper's farthest-first heuristic, told 3,
and DP-means gets the rows in 100 orders. The sampler starts, as in the paper, with all rows in one
cluster. Sigma has an inverse gamma prior. Alpha has a gamma prior, or is tuned on other rows of the
same Gaussians. These priors and the values of alpha are chosen here.

The result depends on the rows: for 6 of 20 seeds DP-means makes three clusters in all of 20 orders,
for the others four or five in some orders. For 18 of them three clusters have the longest interval
of penalties.
"""

from importlib.util import find_spec
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from sklearn.metrics import normalized_mutual_info_score

from dask_dpmeans import DPMeans
from dask_dpmeans.estimators.gibbs import GibbsMixture
from dask_dpmeans.selection.penalty import farthest_first

APART = 4.25
"""From one mean to the next, in standard deviations."""
SEED = 1
VARIANCE_PRIOR = CONCENTRATION_PRIOR = (1.0, 1.0)
CONCENTRATIONS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
"""Alphas that are tried on the validation rows."""
EVERY = 10
"""Sweeps from one measured draw to the next."""
Array = np.ndarray[Any, Any]


class Fit(NamedTuple):
    """What DP-means makes of one order of the rows."""

    iterations: int
    clusters: int
    agreement: float
    """NMI with the Gaussians."""


class Chain(NamedTuple):
    """A run of the sampler, a value every tenth sweep."""

    agreement: Array
    clusters: Array


def draw(seed: int = SEED) -> tuple[Array, Array]:
    """Rows, (300, 2), around 0, and the Gaussian of each."""
    means = APART * np.array([[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    truth = np.repeat(np.arange(3), 100)
    return means[truth] + np.random.default_rng(seed).standard_normal((300, 2)), truth


def in_orders(rows: Array, truth: Array, penalty: float, orders: int = 100) -> list[Fit]:
    """DP-means until the centers repeat, on the rows in random orders."""
    fits = []
    for seed in range(orders):
        order = np.random.default_rng(seed).permutation(len(rows))
        model = DPMeans(penalty, tol=0).fit(rows[order])
        agreement = normalized_mutual_info_score(truth[order], model.labels_)
        fits.append(Fit(model.n_iter_, model.n_clusters_, float(agreement)))
    return fits


def chain(
    rows: Array, truth: Array, sweeps: int, concentration: float | None, seed: int = 0
) -> Chain:
    """The sampler, with this alpha, or with one that has a prior."""
    prior = CONCENTRATION_PRIOR if concentration is None else None
    model = GibbsMixture(
        concentration=concentration or 1.0,
        variance_prior=VARIANCE_PRIOR,
        concentration_prior=prior,
        max_iter=sweeps,
        random_state=seed,
    )
    draws = islice(model.draws(rows), EVERY - 1, None, EVERY)
    found = [
        (normalized_mutual_info_score(truth, each.labels), len(each.weights)) for each in draws
    ]
    agreement, clusters = np.array(found).T
    return Chain(agreement, clusters.astype(int))


def validated(sweeps: int) -> float:
    """The alpha whose second half of a chain on other rows agrees best with the Gaussians."""
    rows, truth = draw(SEED + 1)
    return max(
        CONCENTRATIONS, key=lambda alpha: late(chain(rows, truth, sweeps, alpha).agreement).mean()
    )


def late(values: Array) -> Array:
    """Those of the second half of a chain."""
    return values[len(values) // 2 :]


def clusters_at(rows: Array, penalties: Array) -> list[int]:
    """Clusters of DP-means at each penalty."""
    return [DPMeans(penalty, tol=0).fit(rows).n_clusters_ for penalty in penalties]


def intervals(penalties: Array, clusters: list[int]) -> list[tuple[int, float, float]]:
    """Runs of penalties that give one number of clusters: that, the first and the last."""
    pairs = zip(clusters, penalties.tolist(), strict=True)
    runs = [
        (k, [penalty for _, penalty in run]) for k, run in groupby(pairs, key=lambda pair: pair[0])
    ]
    return [(k, run[0], run[-1]) for k, run in runs]


def longest(found: list[tuple[int, float, float]]) -> tuple[int, float, float]:
    """The interval of more than one cluster with the greatest ratio of last to first penalty."""
    return max((each for each in found if each[0] > 1), key=lambda each: each[2] / each[1])


def figure(
    path: Path, rows: Array, truth: Array, chains: dict[str, Chain], penalties: Array, clusters: Any
) -> None:
    """Figure 2a to 2c."""
    from matplotlib.figure import Figure  # noqa: PLC0415  the one part of the example that needs it

    page = Figure(figsize=(13, 4), layout="constrained")
    data, trace, path_of_k = page.subplots(1, 3)
    for number, marker in enumerate("o^s"):
        data.scatter(
            *rows[truth == number].T,
            s=14,
            marker=marker,
            c=f"{0.3 * number}",
            label=f"Gaussian {number + 1}",
        )
    data.set(title="a) the rows", xlabel="first column", ylabel="second column", aspect="equal")
    data.set_ylim(-4, 6)
    data.legend(fontsize="small", loc="upper center", ncols=3)
    for (name, each), gray in zip(chains.items(), ("0.65", "k"), strict=True):
        trace.plot(
            EVERY * np.arange(1, len(each.agreement) + 1),
            each.agreement,
            c=gray,
            lw=0.8,
            label=name,
        )
    trace.set(
        title="b) Gibbs sampler",
        xlabel="sweep",
        ylabel="NMI with the Gaussians",
        ylim=(-0.02, 1.02),
    )
    trace.legend(fontsize="small", loc="lower right")
    path_of_k.step(penalties, clusters, "k", where="mid")
    path_of_k.set(
        title="c) DP-means", xlabel="penalty (squared distance)", ylabel="clusters", xscale="log"
    )
    path_of_k.set(
        yscale="log", yticks=(1, 2, 3, 5, 10, 20, 40), yticklabels=(1, 2, 3, 5, 10, 20, 40)
    )
    page.savefig(path, dpi=100)


@click.command()
@click.option(
    "--sweeps", default=5000, show_default=True, type=click.IntRange(100), help="Of each chain."
)
@click.option(
    "--orders", default=100, show_default=True, type=click.IntRange(1), help="Of the rows."
)
@click.option(
    "--figure",
    "path",
    type=click.Path(path_type=Path),
    help="Draw figure 2 into this file, .png or .pdf.",
)
def main(sweeps: int, orders: int, path: Path | None) -> None:
    """Repeat the experiment with three Gaussians of Kulis & Jordan 2012, section 6.2."""
    if path is not None and find_spec("matplotlib") is None:
        raise click.ClickException(
            "a figure needs matplotlib: pip install 'dask-dpmeans[plot]', or leave --figure out"
        )
    rows, truth = draw()
    penalty = farthest_first(rows, 3).penalty
    fits = in_orders(rows, truth, penalty, orders)
    click.echo(
        f"DP-means at penalty {penalty:.2f}, {orders} orders of {len(rows)} rows (published in brackets)"
    )
    click.echo(f"  iterations at most  {max(fit.iterations for fit in fits)} (8)")
    click.echo(f"  clusters            {sorted({fit.clusters for fit in fits})} (3)")
    click.echo(f"  NMI, mean           {np.mean([fit.agreement for fit in fits]):.3f} (.89)")
    alpha = validated(sweeps // 5)
    chains = {
        "alpha with a gamma prior": chain(rows, truth, sweeps, None),
        f"alpha = {alpha:g}, validated": chain(rows, truth, sweeps, alpha),
    }
    click.echo(f"Gibbs sampler, {sweeps:,} sweeps")
    for name, each in chains.items():
        tenths = [part.mean() for part in np.array_split(each.agreement, 10)]
        click.echo(f"  {name:26} NMI by tenths {' '.join(f'{mean:.2f}' for mean in tenths)}")
        counts = np.bincount(late(each.clusters))
        shares = ", ".join(
            f"{k}: {count / counts.sum():.0%}" for k, count in enumerate(counts) if count
        )
        click.echo(f"  {'':26} clusters in the second half {shares}")
    penalties = np.geomspace(1.0, 200.0, 80)
    clusters = clusters_at(rows, penalties)
    k, first, last = longest(intervals(penalties, clusters))
    click.echo(
        f"DP-means from penalty 1 to 200: the longest interval has {k} clusters, {first:.1f} to {last:.1f}"
    )
    if path is not None:
        figure(path, rows, truth, chains, penalties, clusters)
        click.echo(f"figure: {path}")


if __name__ == "__main__":
    main()
