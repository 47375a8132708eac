"""The discount: a price that falls with the number of clusters, from the rows to the stored run.

`DPMEANS_INSTANCES=300 python -m pytest tests/methods/dpmeans/test_discount.py -k best` takes 300 sets of few rows.
"""

import json
import math
import os
from itertools import pairwise

import dask.array as da
import numpy as np
import pytest
from click.testing import CliRunner
from optimum import partitions
from strategies import contents, states_of

from dask_dpmeans import DPMeans, InputError, TooManyClustersError, dry_run, fit, load, predict
from dask_dpmeans.cli import main
from dask_dpmeans.methods.dpmeans import batch, search
from dask_dpmeans.report import report
from dask_dpmeans.selection.metrics import objective_score
from dask_dpmeans.sources import as_source

INSTANCES = int(os.environ.get("DPMEANS_INSTANCES", "60"))


def price(penalty, discount, j):
    """What the j-th cluster costs."""
    return max(penalty / 10, penalty - discount * math.log(j))


def prices(penalty, discount, k):
    return math.fsum(price(penalty, discount, j) for j in range(1, k + 1))


def lowest(rows, weights, penalty, discount):
    """The least squared error plus prices, and its number of clusters, over all partitions."""
    n = len(rows)
    inside = (np.arange(2**n)[:, np.newaxis] >> np.arange(n) & 1) * weights
    masses = inside.sum(axis=1)
    masses[0] = 1.0
    squares = inside @ (rows**2).sum(axis=1)
    errors = squares - ((inside @ rows) ** 2).sum(axis=1) / masses
    totals = [prices(penalty, discount, k) for k in range(n + 1)]
    return min(
        (
            math.fsum(errors[sum(1 << row for row in cluster)] for cluster in each)
            + totals[len(each)],
            len(each),
        )
        for each in partitions(n)
    )


def recomputed(rows, weights, model):
    costs = ((rows - model.cluster_centers_[model.labels_]) ** 2).sum(axis=1)
    total = prices(model.penalty, model.discount, model.n_clusters_)
    return math.fsum(weights * costs) + total


def falls(found):
    """Whether each step is lower than the one before; the end may be told twice."""
    steps = pairwise(found)
    return all(
        after.objective < before.objective or after.step == before.step for before, after in steps
    )


def zipf(seed, k=40, rows=1500):
    """Rows of k clusters in a square, the j-th of weight 1 / j, rounded to a grid."""
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1, k + 1)
    labels = rng.choice(k, size=rows, p=shares / shares.sum())
    return (rng.uniform(0, 64, (k, 2))[labels] + rng.normal(size=(rows, 2))).round(2)


def test_the_search_finds_the_best_of_all_partitions_of_few_rows():
    ratios, numbers = [], []
    for seed in range(INSTANCES):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 9))
        rows, weights = rng.normal(size=(n, 2)), rng.integers(1, 4, n).astype(float)
        penalty = float(rng.uniform(0.3, 6.0))
        discount = penalty * float(rng.uniform(0.05, 1.2))
        model = DPMeans(penalty, discount=discount, search=True, random_state=seed)
        model.fit(rows, sample_weight=weights)
        assert model.objective_ == pytest.approx(recomputed(rows, weights, model), rel=1e-9)
        assert all(after.objective < before.objective for before, after in pairwise(model.history_))
        least, k = lowest(rows, weights, penalty, discount)
        ratios.append(model.objective_ / least)
        numbers.append(k)
    assert max(ratios) <= 1.03
    assert np.mean(np.array(ratios) <= 1 + 1e-9) >= 0.97
    assert len(set(numbers)) >= 6


@pytest.mark.parametrize("seed", range(6))
def test_a_sweep_is_algorithm_1_row_by_row_at_thresholds_that_fall(seed):
    rows = np.round(zipf(seed) * 4) / 4
    penalty, discount = 60.0, 14.0
    method = batch.Method(penalty, discount=discount, tol=0.0)
    source = as_source(da.from_array(rows, chunks=(170, 2)), block_rows=64, threads=2)
    found = states_of(source, method)
    assert [contents(state) for state in found] == [
        contents(state) for state in states_of(as_source(rows, block_rows=64, threads=1), method)
    ]
    means = rows.mean(axis=0)[np.newaxis]
    for state in found:
        centers, order = list(means), [*state.opened.tolist()]
        rest = [row for row in range(len(rows)) if row not in order]
        opened = []
        labels = np.empty(len(rows), int)
        for row in order + rest:
            costs = ((rows[row] - centers) ** 2).sum(axis=1)
            if costs.min() > price(penalty, discount, len(centers) + 1):
                opened.append(row)
                labels[row] = len(centers)
                centers.append(rows[row])
            else:
                labels[row] = int(np.argmin(costs))
        assert opened == order
        alive = np.unique(labels)
        np.testing.assert_array_equal(state.centers, np.array(centers)[alive])
        costs = ((rows - np.array(centers)[labels]) ** 2).sum(axis=1)
        wanted = math.fsum(costs) + prices(penalty, discount, len(alive))
        assert state.objective == pytest.approx(wanted, rel=1e-12)
        means = state.means
    assert falls(found)
    assert len(found[-1].centers) > 10
    assert len(found[0].opened) > len(states_of(source, batch.Method(penalty, tol=0.0))[0].opened)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("search_", [False, True])
def test_a_fit_is_the_same_for_any_chunks_and_never_rises(metric, search_):
    rows = zipf(0) + 1.0
    penalty, discount = (60.0, 14.0) if metric == "euclidean" else (0.05, 0.01)
    method = DPMeans(penalty, discount=discount, metric=metric, search=search_).method().seeded(0)
    found = [
        states_of(as_source(X, block_rows=256, threads=2, features=method.features), method)
        for X in (rows, da.from_array(rows, chunks=(311, 1)))
    ]
    assert [contents(state) for state in found[0]] == [contents(state) for state in found[1]]
    assert falls(found[0])
    end = found[0][-1]
    total = math.fsum(end.inertias) + prices(penalty, discount, len(end.centers))
    assert end.objective == pytest.approx(total, rel=1e-12)
    assert len(end.centers) > 3


def test_a_search_on_a_coreset_is_lower_than_births_alone_and_of_more_clusters_than_without():
    rows = zipf(1, k=100, rows=40_000)
    found = DPMeans(3000.0, discount=600.0, search=True, random_state=0).fit(rows)
    assert found.objective_ == pytest.approx(recomputed(rows, np.ones(len(rows)), found), rel=1e-9)
    assert found.objective_ < DPMeans(3000.0, discount=600.0).fit(rows).objective_
    without = DPMeans(3000.0, search=True, random_state=0).fit(rows)
    assert found.n_clusters_ > without.n_clusters_


@pytest.mark.parametrize("kind", [batch.Method, search.Method])
@pytest.mark.parametrize("discount", [0.0, 3.0, 50.0])
def test_each_cluster_of_a_coreset_costs_the_share_and_the_optimism_more(kind, discount):
    method = kind(10.0, discount=discount)
    dearer = method.with_prices(0.25, more=2.0)
    for k in range(60):
        wanted = 0.25 * method.price.threshold(k) + 2.0
        assert dearer.price.threshold(k) == pytest.approx(wanted, rel=1e-12)
        again = dearer.with_prices(more=1.0).price.threshold(k)
        assert again == pytest.approx(wanted + 1.0, rel=1e-12)


@pytest.mark.parametrize("search_", [False, True])
def test_a_run_keeps_the_discount_and_rows_beyond_the_next_price_are_beyond(tmp_path, search_):
    rows = zipf(2)
    np.save(tmp_path / "rows.npy", rows)
    model = DPMeans(60.0, discount=14.0, search=search_, random_state=0)
    run = fit(str(tmp_path / "rows.npy"), str(tmp_path / "run.zarr"), model)
    loaded = load(str(tmp_path / "run.zarr"))
    assert (loaded.discount, loaded.objective_) == (14.0, run.objective_)
    assert loaded.predict(rows).tolist() == np.asarray(loaded.labels_).tolist()
    threshold = price(60.0, 14.0, run.n_clusters_ + 1)
    strange = np.array([[200.0, 200.0], *(run.cluster_centers_[:1] + np.sqrt([[threshold, 0.0]]))])
    strange = np.concatenate([strange, strange[1:] + np.array([0.01, 0.0])])
    np.save(tmp_path / "strange.npy", strange)
    done = predict(
        str(tmp_path / "run.zarr"), str(tmp_path / "strange.npy"), str(tmp_path / "out.zarr")
    )
    centers = run.cluster_centers_
    least = ((strange[:, np.newaxis] - centers) ** 2).sum(axis=2).min(axis=1)
    assert done.beyond == np.count_nonzero(least > threshold) >= 1
    text = loaded.description().settings["discount"]
    assert text.startswith(
        f"14: the next cluster, number {run.n_clusters_ + 1}, costs {threshold:g}"
    )
    with pytest.raises(InputError, match=r"begun with other parameters: discount 14\.0, not 0\.0"):
        fit(
            str(tmp_path / "rows.npy"),
            str(tmp_path / "run.zarr"),
            DPMeans(60.0, search=search_, random_state=0),
            resume=True,
        )


def test_the_score_that_counts_clusters_counts_them_at_falling_prices():
    rows = zipf(3)
    model = DPMeans(60.0, discount=14.0).fit(rows)
    assert objective_score(model, rows) == pytest.approx(-model.objective_, rel=1e-12)
    other = model.inertia_ + prices(70.0, 14.0, model.n_clusters_)
    assert objective_score(model, rows, penalty=70.0) == pytest.approx(-other, rel=1e-12)


def test_without_a_discount_nothing_changes():
    rows = zipf(4)
    for search_ in (False, True):
        plain = DPMeans(60.0, search=search_, random_state=0).fit(rows)
        none = DPMeans(60.0, search=search_, random_state=0, discount=0).fit(rows)
        assert none.cluster_centers_.tobytes() == plain.cluster_centers_.tobytes()
        assert none.objective_ == plain.objective_


@pytest.mark.parametrize("search_", [False, True])
def test_a_dry_run_knows_the_discount(tmp_path, search_):
    rows, run = zipf(5, rows=3000), str(tmp_path / "run.zarr")
    found = [
        dry_run(rows, run, DPMeans(60.0, discount=discount, search=search_)).sample_clusters
        for discount in (0.0, 14.0)
    ]
    assert found[1] > found[0]


def test_errors_say_what_a_discount_needs():
    rows = zipf(6)
    with pytest.raises(InputError, match=r"a number with discount=2, got 'auto': .* give a number"):
        DPMeans(discount=2.0).fit(rows)
    with pytest.raises(InputError, match=r"discount must be a finite number >= 0, got -1\.0"):
        DPMeans(4.0, discount=-1.0).fit(rows)
    for search_ in (False, True):
        model = DPMeans(9.0, discount=1.0, max_clusters=2, search=search_)
        with pytest.raises(TooManyClustersError, match="penalty=9, discount=1 makes at least"):
            model.fit(rows)
    with pytest.raises(InputError, match=r"penalty=8, discount=1, .* the next cluster costs 7\.3"):
        DPMeans(8.0, discount=1.0, metric="cosine").fit(rows + 1)
    assert DPMeans(5.0, discount=2.0, metric="cosine").fit(rows + 1).n_clusters_ >= 1


def test_the_best_clusters_are_also_the_best_at_the_plain_price_of_the_last_one():
    for seed in range(60):
        rng = np.random.default_rng(seed)
        rows, ones = rng.normal(size=(7, 2)), np.ones(7)
        penalty, discount = float(rng.uniform(0.5, 3.0)), float(rng.uniform(0.1, 1.0))
        least, k = lowest(rows, ones, penalty, discount)
        last = price(penalty, discount, k)
        inertia = least - prices(penalty, discount, k)
        assert lowest(rows, ones, last, 0.0)[0] == pytest.approx(inertia + last * k, rel=1e-9)


def test_the_command_line_and_the_estimator_fit_alike(tmp_path):
    rows, run = zipf(7), str(tmp_path / "run.zarr")
    np.save(tmp_path / "rows.npy", rows)
    told = ["fit", str(tmp_path / "rows.npy"), run, "--penalty", "60", "--discount", "14"]
    found = CliRunner().invoke(main, told)
    assert found.exit_code == 0, found.output
    assert "inertia" in found.output
    assert "+ prices of clusters 1 to k" in found.output
    fitted = DPMeans(60.0, discount=14.0).fit(rows)
    assert load(run).cluster_centers_.tobytes() == fitted.cluster_centers_.tobytes()
    shown = json.loads(CliRunner().invoke(main, ["show", run, "--json"]).output)
    assert shown["parameters"]["discount"] == 14.0
    assert "DPMeans(discount=14.0, penalty=60.0" in report_text(run, tmp_path / "out.html")


def report_text(run, out):
    report(run, str(out))
    return out.read_text()
