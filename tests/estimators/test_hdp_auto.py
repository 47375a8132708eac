"""Several data sets whose prices are chosen from the rows."""

import json
import shlex

import dask.array as da
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score
from strategies import groupings, tables, weights_of

from dask_dpmeans import DPMeans, HDPMeans, InputError, fit, load, predict
from dask_dpmeans.cli import main
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.methods.hdp.choice import AutoPrices, SharedChoice, Uses
from dask_dpmeans.methods.hdp.search import Method
from dask_dpmeans.report import page
from dask_dpmeans.sources import as_source


def drawn(seed, n_sets, n_clusters, shift, rows=20):
    """Rows, data sets and clusters: each set uses about half of the clusters, at shifted means."""
    random = np.random.default_rng(seed)
    means = 8.0 * np.stack([np.arange(n_clusters) % 3, np.arange(n_clusters) // 3], axis=1)
    used = random.random((n_sets, n_clusters)) < 0.5
    used[np.arange(n_clusters) % n_sets, np.arange(n_clusters)] = True
    used[np.arange(n_sets), np.arange(n_sets) % n_clusters] = True
    sets, clusters = (np.repeat(each, rows) for each in np.nonzero(used))
    shifts = np.repeat(shift * random.normal(size=(int(used.sum()), 2)), rows, axis=0)
    order = random.permutation(len(sets))
    found = means[clusters] + shifts + random.normal(size=(len(sets), 2))
    return found[order], sets[order], clusters[order], int(used.sum())


@pytest.fixture(scope="module")
def shared():
    """Rows of 5 data sets that share 6 clusters, and their sets."""
    rows, sets, _, _ = drawn(1, 5, 6, 0.3)
    return rows, sets


@pytest.fixture(scope="module")
def fitted(shared):
    rows, sets = shared
    return HDPMeans(random_state=0).fit(rows, groups=sets)


def assert_same(one, other):
    """Check that two fits chose alike, and are the same to the byte."""
    for name in ("cluster_centers_", "cluster_weights_", "cluster_stability_", "labels_"):
        here, there = (np.asarray(getattr(each, name)) for each in (one, other))
        assert here.tobytes() == there.tobytes(), name
    for name in ("local_penalty_", "global_penalty_", "choice_", "objective_"):
        assert getattr(one, name) == getattr(other, name), name
    assert (one.local_clusters_ != other.local_clusters_).nnz == 0


@pytest.mark.parametrize("shift", [0.0, 0.6])
@pytest.mark.parametrize(("n_sets", "n_clusters"), [(3, 3), (8, 7), (20, 4), (6, 12)])
def test_global_clusters_and_uses_are_found(n_sets, n_clusters, shift):
    rows, sets, clusters, uses = drawn([n_sets, n_clusters], n_sets, n_clusters, shift)
    model = HDPMeans(random_state=0).fit(rows, groups=sets)
    assert (model.n_clusters_, model.n_local_clusters_) == (n_clusters, uses)
    assert adjusted_rand_score(clusters, model.labels_) > 0.99
    assert (model.cluster_stability_ > 0.9).all()


def test_the_price_of_pooled_clusters_is_shared_by_centers_and_uses(shared, fitted):
    rows, sets = shared
    pooled = DPMeans(random_state=0).fit(rows)
    price, k = pooled.penalty_, pooled.n_clusters_
    uses = len(np.unique(np.stack([sets, pooled.labels_]), axis=1).T)
    assert fitted.choice_.chosen.uses == uses
    assert fitted.global_penalty_ == price / 2
    assert fitted.local_penalty_ == pytest.approx(price / 2 * k / uses)
    total = fitted.local_penalty_ * uses + fitted.global_penalty_ * k
    assert total == pytest.approx(price * k)
    assert isinstance(fitted.choice_, SharedChoice)
    for one, other in zip(fitted.choice_.alternatives, pooled.choice_.alternatives, strict=True):
        assert vars(one) | {"uses": 0} == vars(other) | {"uses": 0}
    assert fitted.choice_.reason == pooled.choice_.reason


def test_the_fit_is_that_of_the_chosen_numbers(shared, fitted):
    rows, sets = shared
    numbers = fitted.choice_.penalties
    assert list(numbers.values()) == [fitted.local_penalty_, fitted.global_penalty_]
    given = HDPMeans(**numbers, search=True, random_state=0).fit(rows, groups=sets)
    assert given.cluster_centers_.tobytes() == fitted.cluster_centers_.tobytes()
    assert given.labels_.tobytes() == fitted.labels_.tobytes()
    assert given.objective_ == fitted.objective_
    assert fitted.n_passes_ == given.n_passes_ + 3
    assert (given.choice_, given.cluster_stability_) == (None, None)
    assert given.local_penalty_ == numbers["local_penalty"]
    unfitted = HDPMeans("auto", "auto", search=True, random_state=0)
    assert_same(unfitted.fit(rows, groups=sets), fitted)
    np.testing.assert_array_equal(fitted.predict(rows, sets), fitted.labels_)
    other = fitted.choice_.alternatives[1]
    assert other.penalties["global_penalty"] == other.penalty / 2
    again = HDPMeans(**other.penalties, search=True, random_state=0).fit(rows, groups=sets)
    assert again.global_penalty_ == other.penalty / 2


def test_the_same_bytes_for_lists_chunks_and_an_empty_set(shared, fitted):
    rows, sets = shared
    chunked = da.from_array(rows, chunks=(37, 1)), da.from_array(sets, chunks=50)
    assert_same(HDPMeans(random_state=0).fit(chunked[0], groups=chunked[1]), fitted)
    order = np.argsort(sets, kind="stable")
    listed = [rows[order][sets[order] == number] for number in range(5)]
    ordered = HDPMeans(random_state=0).fit([*listed, rows[:0]])
    assert ordered.local_clusters_.shape[0] == 6
    assert ordered.choice_ == fitted.choice_
    twice = HDPMeans(random_state=0).fit(
        np.concatenate([rows, rows]), groups=np.concatenate([sets, sets])
    )
    heavy = HDPMeans(random_state=0).fit(rows, groups=sets, sample_weight=np.full(len(rows), 2.0))
    assert heavy.choice_.penalties == twice.choice_.penalties
    assert heavy.n_clusters_ == twice.n_clusters_ == fitted.n_clusters_


@pytest.mark.parametrize("seed", range(3))
def test_one_data_set_is_clustered_as_by_dpmeans(seed):
    rows, _, _, _ = drawn(seed, 1, 3 + seed, 0.0, rows=40)
    one, plain = HDPMeans(random_state=0).fit(rows), DPMeans(random_state=0).fit(rows)
    assert one.local_penalty_ == one.global_penalty_ == plain.penalty_ / 2
    assert one.objective_ <= plain.objective_ * (1 + 1e-12)
    assert one.n_clusters_ == plain.n_clusters_
    assert adjusted_rand_score(plain.labels_, one.labels_) == 1
    assert sorted(one.cluster_stability_) == pytest.approx(sorted(plain.cluster_stability_))


def test_data_sets_without_clusters_share_one():
    random = np.random.default_rng(0)
    rows, sets = random.normal(size=(400, 3)), np.arange(400) % 6
    model = HDPMeans(random_state=0).fit(rows, groups=sets)
    assert (model.n_clusters_, model.n_local_clusters_) == (1, 6)
    assert model.choice_.reason.startswith("1 cluster")


@settings(max_examples=8)
@given(st.data())
def test_uses_are_pairs_that_have_rows(data):
    rows = data.draw(tables(rows=(2, 30), kinds=("grid", "clouds")))
    weights = data.draw(weights_of(len(rows), (0.0, 1.0, 3.0)))
    sets = data.draw(groupings(len(rows)))
    source = as_source(rows, weights, groups=sets, threads=1, block_rows=4)
    centers = rows[:1], rows[: 1 + len(rows) // 2]
    found = source.fold(Uses(tuple(Centers(each.astype(np.float64)) for each in centers)), name="u")
    heavy = np.ones(len(rows), bool) if weights is None else np.asarray(weights) > 0
    for each, keys in zip(centers, found, strict=True):
        squared = ((rows[:, np.newaxis].astype(float) - each.astype(float)) ** 2).sum(axis=2)
        used = {(sets[n], squared[n].argmin()) for n in np.flatnonzero(heavy)}
        ties = (squared == squared.min(axis=1, keepdims=True)).sum(axis=1)
        if (ties == 1).all():
            assert len(keys) == len(used)


def test_a_run_is_resumed_and_loaded(shared, fitted, tmp_path):
    rows, sets = shared
    asked = HDPMeans(random_state=0)

    class StopError(Exception):
        pass

    def stop(number, *_):
        raise StopError

    with pytest.raises(StopError):
        fit(rows, tmp_path / "run", asked, groups=sets, on_step=stop)
    resumed = fit(rows, tmp_path / "run", asked, groups=sets, resume=True)
    assert_same(resumed, fitted)
    assert resumed.n_passes_ == fitted.n_passes_
    loaded = load(tmp_path / "run")
    assert_same(loaded, fitted)
    assert loaded.get_params() == asked.get_params()
    np.testing.assert_array_equal(loaded.predict(rows, sets), fitted.labels_)
    assert predict(tmp_path / "run", rows, tmp_path / "out", groups=sets).n_rows == len(rows)
    with pytest.raises(InputError, match="begun with other parameters: local_penalty"):
        fit(rows, tmp_path / "run", HDPMeans(3.0, 4.0, search=True), groups=sets, resume=True)
    with pytest.raises(InputError, match=r"rows in .*, or what is given with them, have changed"):
        fit(rows[::-1].copy(), tmp_path / "run", asked, groups=np.roll(sets, 1), resume=True)


def test_the_command_line_chooses(shared, fitted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", shared[0])
    np.save("sets.npy", shared[1])
    words = ["hdp", "rows.npy", "run.zarr", "--groups", "sets.npy", "--seed", "0"]
    told = [*words, "--local-penalty", "auto", "--global-penalty", "auto"]
    said = CliRunner().invoke(main, told, catch_exceptions=False)
    assert said.exit_code == 0, said.output
    assert "a global one, chosen from the rows" in said.output
    assert_same(load("run.zarr"), fitted)
    shown = CliRunner().invoke(main, ["show", "run.zarr", "--json"], catch_exceptions=False)
    choice = json.loads(shown.stdout)["choice"]
    assert SharedChoice.from_json(choice) == fitted.choice_
    again = shlex.split(page("run.zarr", data=False).command)
    assert CliRunner().invoke(main, again[1:]).exit_code == 0
    assert_same(load("again.zarr"), fitted)
    refused = CliRunner().invoke(main, [*words, "--force", "--local-penalty", "2"])
    assert (refused.exit_code, "or both 'auto'" in refused.output) == (2, True)


@pytest.mark.parametrize("given", [{"local_penalty": 2.0}, {"global_penalty": 2.0}])
def test_one_number_without_the_other_is_refused(given, shared):
    with pytest.raises(InputError, match=r"must be numbers, or both 'auto', got .*2\.0"):
        HDPMeans(**given).fit(shared[0], groups=shared[1])


def test_wrong_words_and_rows_without_sets_are_refused(shared, tmp_path):
    with pytest.raises(InputError, match=r"global_penalty must be a number > 0 or 'auto', got 'a'"):
        HDPMeans("auto", "a").fit(shared[0])
    with pytest.raises(InputError, match="the rows come without groups"):
        fit(shared[0], tmp_path / "run", HDPMeans())
    with pytest.raises(InputError, match="the rows come without groups"):
        AutoPrices(Method(1.0, 1.0)).choose(as_source(shared[0]), 0)


def test_prices_among_features_of_a_kernel_are_chosen(shared):
    rows, sets = shared
    how = {"approximation": "nystroem", "gamma": 0.05, "n_components": 30, "random_state": 0}
    model = HDPMeans(**how).fit(rows, groups=sets)
    given = HDPMeans(**model.choice_.penalties, search=True, **how).fit(rows, groups=sets)
    assert given.labels_.tobytes() == model.labels_.tobytes()
    assert model.local_penalty_ < model.global_penalty_ < len(rows)
