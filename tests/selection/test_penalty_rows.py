"""Penalties for rows as they are: counts, categories, missing values, outliers and falling prices."""

import shlex

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from dask_dpmeans import DPMeans, InputError, load
from dask_dpmeans.cli import main
from dask_dpmeans.kernels.price import penalty_between, price_of
from dask_dpmeans.methods.dpmeans.path import Solution, best, envelope, exchange
from dask_dpmeans.selection.penalty import (
    farthest_first,
    penalty_for,
    penalty_path,
    read_path,
    stored_path,
    write_path,
)
from dask_dpmeans.selection.tree import cluster_tree

K = 4


def counts(rng, labels):
    return rng.poisson(rng.gamma(0.5, 12.0, (K, 6))[labels] + 0.2).astype(float)


def points(rng, labels):
    return 9.0 * rng.normal(size=(K, 4))[labels] + rng.normal(size=(len(labels), 4))


def holes(rng, labels):
    rows = points(rng, labels)
    rows[rng.random(rows.shape) < 0.15] = np.nan
    return rows


def noisy(rng, labels):
    rows = points(rng, labels)
    rows[:9] = rng.uniform(-60, 60, (9, 4))
    return rows


def mixed(rng, labels):
    rows = points(rng, labels)
    rows[:, 0] = np.where(rng.random(len(labels)) < 0.8, labels, rng.integers(K, size=len(labels)))
    return rows


KINDS = {
    "poisson": (counts, {"divergence": "poisson"}),
    "multinomial": (lambda rng, labels: counts(rng, labels) + 0.1, {"divergence": "multinomial"}),
    "gamma": (lambda rng, labels: np.exp(points(rng, labels) / 5), {"divergence": "gamma"}),
    "categorical": (mixed, {"divergence": {0: "categorical"}}),
    "missing": (holes, {"missing": "observed"}),
    "outliers": (noisy, {"outlier_penalty": 36.0}),
    "missing outliers": (holes, {"missing": "unscaled", "outlier_penalty": 36.0}),
    "discount": (points, {"discount": 9.0}),
}


def drawn(kind, seed, n=80):
    rng = np.random.default_rng(seed)
    make, options = KINDS[kind]
    return make(rng, np.arange(n) % K), options


@pytest.mark.parametrize("kind", ["poisson", "outliers", "missing outliers", "discount"])
def test_a_fit_at_the_price_that_was_found_has_the_clusters_wanted(kind):
    rows, options = drawn(kind, 0)
    found = penalty_for(rows, K, search=True, random_state=0, **options)
    model = DPMeans(found.penalty, search=True, random_state=0, **options).fit(rows)
    assert model.n_clusters_ == found.n_clusters == K


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "outliers" not in kind])
def test_a_fit_at_the_radius_that_was_found_has_its_clusters(kind):
    rows, options = drawn(kind, 1)
    found = penalty_for(rows, K, random_state=0, **options)
    assert DPMeans(found.penalty, **options).fit(rows).n_clusters_ == found.n_clusters
    assert abs(found.n_clusters - K) <= 1


@pytest.mark.parametrize("kind", ["categorical", "discount"])
def test_a_path_knows_the_objective_of_each_fit(kind, tmp_path):
    rows, options = drawn(kind, 2)
    penalties = [60.0, 240.0]
    path = penalty_path(rows, penalties, search=True, random_state=0, **options)
    for place, penalty in enumerate(penalties):
        model = DPMeans(penalty, search=True, random_state=0, **options).fit(rows)
        assert path.objectives[place] == pytest.approx(model.objective_, rel=1e-3)
        assert path.n_clusters[place] == model.n_clusters_
        assert path.centers[place].shape == model.cluster_centers_.shape
    write_path(path, tmp_path / "path")
    again = read_path(tmp_path / "path")
    assert (
        again.asked["parameters"].items()
        >= {
            name: {"0": "categorical"} if isinstance(value, dict) else value
            for name, value in options.items()
        }.items()
    )


def test_a_path_that_goes_on_has_the_options_of_its_beginning(tmp_path):
    rows, options = drawn("outliers", 0)
    how = {"search": True, "random_state": 0}
    first = stored_path(rows, [90.0, 200.0], tmp_path / "path", **how, **options)
    assert read_path(tmp_path / "path").objectives.tobytes() == first.objectives.tobytes()
    plain = penalty_path(rows, [90.0, 200.0], **how)
    assert (plain.objectives > first.objectives).all()
    assert "outlier_penalty" not in plain.asked["parameters"]


def test_columns_of_categories_are_categories_when_a_penalty_is_found():
    rows, _ = drawn("categorical", 0)
    table = pd.DataFrame(rows, columns=list("abcd"))
    table["a"] = pd.Categorical(np.array(list("pqrs"))[rows[:, 0].astype(int)])
    named = penalty_for(table, K, search=True, random_state=0, divergence="mixed")
    coded = penalty_for(rows, K, search=True, random_state=0, divergence={0: "categorical"})
    assert named.penalty == coded.penalty


def test_the_farthest_row_is_the_one_of_the_greatest_divergence():
    rows = np.array([[1.0], [1.0], [4.0], [9.0], [9.0]])
    found = farthest_first(rows, 3, divergence="poisson", smoothing=1e-9)
    mean = rows.mean()
    cost = rows[:, 0] * np.log(rows[:, 0] / mean) - rows[:, 0] + mean
    assert found.rows.tolist() == [0, 3, 2]
    assert found.penalties[0] == pytest.approx(cost.max(), rel=1e-6)
    assert found.points[:, 0] == pytest.approx([1.0, 9.0, 4.0], rel=1e-6)
    with pytest.raises(InputError, match="4 clusters are more than the rows that differ"):
        farthest_first(rows, 4, divergence="poisson")


def test_a_price_of_outliers_needs_a_price_of_clusters():
    with pytest.raises(InputError, match="outlier_penalty and outlier_share need search=True"):
        penalty_for(np.eye(3), 2, outlier_penalty=1.0)
    with pytest.raises(InputError, match="give the outlier_penalty_ of a fit as outlier_penalty"):
        penalty_for(np.eye(3), 2, search=True, outlier_share=0.1)


@given(st.floats(1e-3, 1e6), st.integers(1, 40), st.integers(1, 40), st.floats(0.0, 1e5))
def test_at_the_penalty_between_both_numbers_cost_the_same(saving, fewer, more, discount):
    more += fewer
    penalty = penalty_between(saving, fewer, more, discount)
    price = price_of(penalty, discount)
    assert price.change(fewer, more) == pytest.approx(saving, rel=1e-9)


@given(st.lists(st.floats(0.1, 1e4), min_size=2, max_size=8), st.floats(0.0, 500.0))
def test_with_a_falling_price_each_interval_has_the_best_number(savings, discount):
    inertias = np.cumsum([1.0, *sorted(savings)])[::-1]
    found = [
        Solution(np.zeros((k, 1)), float(each), discount=discount)
        for k, each in enumerate(inertias, 1)
    ]
    for number, low, high in envelope(found, 1e-2, 1e6):
        middle = float(np.sqrt(low) * np.sqrt(high))
        chosen = best(found, middle)
        same = chosen.objective(middle) == pytest.approx(
            found[number - 1].objective(middle), rel=1e-9
        )
        assert chosen.k == number or same
    assert exchange(found[0], found[1]) > 0


def test_the_command_that_follows_a_penalty_or_a_path_has_the_options_of_the_rows(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    rows, _ = drawn("categorical", 0)
    np.save("rows.npy", rows)
    shell, seen = CliRunner(), "--search --divergence 0=categorical --outlier-penalty 30 --seed 0"
    told = shell.invoke(main, ["penalty", "rows.npy", "-k", str(K), *seen.split()])
    assert told.exit_code == 0, told.output
    command = shlex.split(told.output.partition("next")[2])
    assert shell.invoke(main, command[1:]).exit_code == 0
    assert load("run.zarr").n_clusters_ == K
    options = seen.split()
    path = [*options, "--from", "100", "--to", "400", "--number", "4"]
    told = shell.invoke(main, ["path", "rows.npy", "path.zarr", *path])
    assert told.exit_code == 0, told.output
    assert read_path("path.zarr").asked["parameters"]["outlier_penalty"] == 30.0
    other = [*path, "--resume", "--missing", "observed"]
    refused = shell.invoke(main, ["path", "rows.npy", "path.zarr", *other])
    assert refused.exit_code == 2
    assert "missing error, not observed" in refused.stderr
    wrong = shell.invoke(main, ["penalty", "rows.npy", "-k", "2", "--discount", "3"])
    assert "--discount is an option for fits" in wrong.stderr


def test_outliers_are_in_no_cluster_of_any_level_of_a_tree():
    rows, options = drawn("outliers", 0)
    model = DPMeans(90.0, search=True, random_state=0, **options).fit(rows)
    assert (model.labels_ < 0).any()
    for level in cluster_tree(model).levels:
        assert ((level.labels(model.labels_) < 0) == (model.labels_ < 0)).all()
