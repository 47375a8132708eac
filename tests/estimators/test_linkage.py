"""LinkageDPMeans: clusters of any shape, their tree, their runs, and what is refused."""

import re
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from scipy.cluster.hierarchy import dendrogram, is_valid_linkage
from scipy.sparse import csr_array
from sklearn.datasets import load_breast_cancer, load_iris, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from strategies import SPARSE_PROBABILITIES

from dask_dpmeans import InputError, LinkageDPMeans, TooManyClustersError, fit, load, predict
from dask_dpmeans.cli import main
from dask_dpmeans.errors import CorruptStoreError
from dask_dpmeans.methods.linkage.search import Method
from dask_dpmeans.report import report
from dask_dpmeans.storage import arrays
from dask_dpmeans.storage.location import Location

CIRCLES = make_circles(600, noise=0.04, factor=0.5, random_state=0)
MOONS = make_moons(600, noise=0.06, random_state=0)


def arms(n):
    """Two spiral arms of n rows each."""
    rng = np.random.default_rng(0)
    angles = np.sqrt(rng.uniform(0.1, 1.0, n)) * 3 * np.pi
    arm = np.column_stack([angles * np.cos(angles), angles * np.sin(angles)])
    return np.concatenate([arm, -arm]) + rng.normal(0, 0.1, (2 * n, 2)), np.repeat([0, 1], n)


SHAPES = {"circles": CIRCLES, "moons": MOONS, "arms": arms(600)}
ROWS = CIRCLES[0]


@pytest.fixture(scope="module")
def fitted():
    return LinkageDPMeans(random_state=0).fit(ROWS)


def same(found, expected):
    for name in ("micro_centers_", "groups_", "cluster_tree_", "cluster_weights_", "labels_"):
        assert np.asarray(getattr(found, name)).tobytes() == getattr(expected, name).tobytes()
    assert found.links_.data.tobytes() == expected.links_.data.tobytes()
    assert found.links_.indices.tobytes() == expected.links_.indices.tobytes()
    assert found.objective_ == expected.objective_
    assert found.penalty_ == expected.penalty_
    assert found.micro_penalty_ == expected.micro_penalty_


@parametrize_with_checks(
    [LinkageDPMeans(micro_penalty=3.0)], expected_failed_checks=lambda _: SPARSE_PROBABILITIES
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_are_found_without_parameters(name):
    rows, truth = SHAPES[name]
    model = LinkageDPMeans(random_state=0).fit(rows)
    assert adjusted_rand_score(truth, model.labels_) == 1
    assert model.n_clusters_ == 2
    assert model.cluster_weights_.tolist() == np.bincount(model.labels_).tolist()


def test_labels_are_those_of_micro_clusters_and_of_predict(fitted):
    np.testing.assert_array_equal(fitted.labels_, fitted.groups_[fitted.micro_labels_])
    np.testing.assert_array_equal(fitted.predict(ROWS), fitted.labels_)
    distances = np.linalg.norm(ROWS[:, np.newaxis] - fitted.micro_centers_, axis=2)
    np.testing.assert_array_equal(fitted.micro_labels_, distances.argmin(axis=1))
    nearest = [distances[:, fitted.groups_ == group].min(axis=1) for group in range(2)]
    np.testing.assert_allclose(fitted.transform(ROWS), np.stack(nearest, axis=1))


def test_the_tree_is_one_of_scipy_and_has_every_level(fitted):
    count = len(fitted.groups_)
    assert is_valid_linkage(fitted.cluster_tree_)
    assert sorted(dendrogram(fitted.cluster_tree_, no_plot=True)["leaves"]) == list(range(count))
    for level in (1, 2, 3, 10, count):
        labels = fitted.groups_at(level)
        assert sorted(set(labels)) == list(range(level))
        weights = np.bincount(labels, fitted.micro_weights_)
        assert (np.diff(weights) <= 0).all()  # heavier clusters come first
        np.testing.assert_array_equal(fitted.labels_at(level), labels[fitted.micro_labels_])
        np.testing.assert_array_equal(fitted.labels_at(level, ROWS), fitted.labels_at(level))
    np.testing.assert_array_equal(fitted.groups_at(2), fitted.groups_)


@pytest.mark.parametrize("seed", range(3))
def test_the_level_of_a_fit_is_the_fit_among_few_far_rows_too(seed):
    rng = np.random.default_rng(seed)
    balls = rng.normal(0, 8, (4, 2))[rng.integers(4, size=300)] + rng.normal(0, 0.5, (300, 2))
    rows = np.concatenate([balls, rng.uniform(-25, 25, (60, 2)), rng.normal(40, 0.3, (6, 2))])
    model = LinkageDPMeans(-0.1, 2.0, noise=0.2, random_state=0).fit(rows)
    assert model.micro_noise_.any()
    np.testing.assert_array_equal(model.groups_at(model.n_clusters_), model.groups_)
    np.testing.assert_array_equal(model.labels_at(model.n_clusters_), model.labels_)


def test_links_are_symmetric_and_the_objective_is_their_cut(fitted):
    links = fitted.links_.toarray()
    np.testing.assert_array_equal(links, links.T)
    assert not links.diagonal().any()
    within = fitted.groups_[:, np.newaxis] == fitted.groups_
    for group, part in enumerate(fitted.cluster_inertias_):
        own = fitted.groups_ == group
        expected = links[own][:, ~own].sum() / links[own].sum()
        assert part == pytest.approx(expected)
    assert (links > 0)[within].any()
    assert fitted.objective_ == fitted.inertia_ + fitted.penalty_ * fitted.n_clusters_


def test_a_fit_with_the_chosen_penalties_is_the_same(fitted):
    given = LinkageDPMeans(fitted.penalty_, fitted.micro_penalty_, random_state=0).fit(ROWS)
    same(given, fitted)
    assert given.choice_ is None
    assert fitted.choice_.penalties == {
        "micro_penalty": fitted.micro_penalty_,
        "penalty": fitted.penalty_,
    }
    one = LinkageDPMeans(micro_penalty=fitted.micro_penalty_, random_state=0).fit(ROWS)
    assert one.micro_penalty_ == fitted.micro_penalty_
    other = LinkageDPMeans(fitted.penalty_, random_state=0).fit(ROWS)
    same(other, fitted)


ORDINARY = {
    "iris": load_iris().data,
    "breast cancer": StandardScaler().fit_transform(load_breast_cancer().data),
    **{
        f"wide circles {seed}": make_circles(500, noise=0.08, factor=0.5, random_state=seed)[0]
        for seed in (0, 5)
    },
}
"""Rows whose micro-clusters by the summary and by the fit differ in the best number of clusters."""


@pytest.mark.parametrize("name", ORDINARY)
@pytest.mark.filterwarnings("error")
def test_the_number_that_is_told_is_the_number_of_the_fit(name):
    rows = ORDINARY[name]
    model = LinkageDPMeans(random_state=0).fit(rows)
    choice = model.choice_
    assert choice.n_clusters == model.n_clusters_ == len(set(model.labels_))
    assert choice.reason.startswith(f"{model.n_clusters_} clusters stay the best")
    assert choice.chosen.low <= model.penalty_ <= choice.chosen.high
    assert choice.n_clusters not in [each.n_clusters for each in choice.alternatives[1:]]
    for each in choice.alternatives:
        if not each.balls:
            other = LinkageDPMeans(**each.penalties, random_state=0).fit(rows)
            assert other.n_clusters_ == each.n_clusters
    same(LinkageDPMeans(**choice.penalties, random_state=0).fit(rows), model)


@pytest.mark.parametrize(
    "given",
    [{"penalty": -0.9}, {"penalty": -0.3}, {"penalty": -1.0}, {"micro_penalty": 0.3}],
    ids=str,
)
@pytest.mark.filterwarnings("error")
def test_a_price_that_is_given_has_the_number_of_the_fit_too(given):
    model = LinkageDPMeans(**given, random_state=0).fit(ORDINARY["wide circles 0"])
    choice = model.choice_
    assert choice.n_clusters == model.n_clusters_
    assert choice.penalties == {"penalty": model.penalty_, "micro_penalty": model.micro_penalty_}
    assert {name: choice.penalties[name] for name in given} == given
    assert choice.reason.startswith(f"{model.n_clusters_} clusters, with")
    same(LinkageDPMeans(**choice.penalties, random_state=0).fit(ORDINARY["wide circles 0"]), model)


@pytest.mark.parametrize("count", [2, 7])
def test_the_price_of_a_number_that_is_asked_for_gives_it(count):
    rows = ORDINARY["wide circles 0"]
    model = LinkageDPMeans(n_clusters=count, random_state=0).fit(rows)
    other = LinkageDPMeans(**model.choice_.penalties, random_state=0).fit(rows)
    assert other.n_clusters_ == count == model.choice_.n_clusters
    assert other.penalty_ == model.penalty_


def test_a_number_of_clusters_that_is_asked_for_is_had(fitted):
    price = fitted.micro_penalty_
    for count in (1, 2, 5, 30):
        assert LinkageDPMeans(n_clusters=count, random_state=0).fit(ROWS).n_clusters_ == count
        model = LinkageDPMeans(micro_penalty=price, n_clusters=count, random_state=0).fit(ROWS)
        assert model.n_clusters_ == count
        np.testing.assert_array_equal(model.labels_, fitted.labels_at(count))
        assert model.objective_ <= 0


@pytest.mark.parametrize("count", [49, 55, 200, 599, 600])
def test_more_clusters_than_micro_clusters_are_by_default_make_more_of_these(fitted, count):
    assert len(fitted.groups_) < 55
    model = LinkageDPMeans(n_clusters=count, random_state=0).fit(ROWS)
    assert model.n_clusters_ == count <= len(model.groups_)


def test_penalties_nearer_to_0_give_fewer_clusters(fitted):
    price = fitted.micro_penalty_
    numbers = [
        LinkageDPMeans(penalty, price, random_state=0).fit(ROWS).n_clusters_
        for penalty in (-1.0, -0.5, -0.05, -1e-9)
    ]
    assert numbers == sorted(numbers, reverse=True)
    assert numbers[0] > 2
    assert numbers[-1] == 2  # no links join the two circles


@pytest.mark.parametrize("chunks", [7, 100, 599])
def test_chunks_change_no_byte(fitted, chunks):
    model = LinkageDPMeans(random_state=0).fit(da.from_array(ROWS, chunks=(chunks, 2)))
    np.testing.assert_array_equal(model.labels_at(7).compute(), fitted.labels_at(7))
    np.testing.assert_array_equal(model.micro_labels_.compute(), fitted.micro_labels_)
    same(model, fitted)


def test_sparse_rows_are_clustered_as_dense_ones(fitted):
    same(LinkageDPMeans(random_state=0).fit(csr_array(ROWS)), fitted)


@pytest.mark.parametrize("seed", range(2))
def test_whole_weights_leave_the_clusters_as_they_are(seed):
    rows, shapes = MOONS
    weights = np.random.default_rng(seed).integers(1, 10, len(rows))
    model = LinkageDPMeans(random_state=0).fit(rows, sample_weight=weights)
    repeated = LinkageDPMeans(random_state=0).fit(np.repeat(rows, weights, axis=0))
    for each, labels in ((model, shapes), (repeated, np.repeat(shapes, weights))):
        assert adjusted_rand_score(labels, each.labels_) == 1
        assert len(each.groups_) < 100
    assert repeated.micro_penalty_ == model.micro_penalty_


def test_weights_are_repeated_rows():
    rows = MOONS[0][:200].round(2)
    rows = np.unique(rows, axis=0)
    weights = np.arange(len(rows)) % 3 + 1.0
    repeated = np.repeat(rows, weights.astype(int), axis=0)
    some = LinkageDPMeans(-0.1, 0.2, random_state=0).fit(rows, sample_weight=weights)
    # The search draws by rows: the micro-clusters are compared by their cost.
    other = LinkageDPMeans(-0.1, 0.2, random_state=0).fit(repeated)
    assert some.cluster_weights_.sum() == len(repeated)
    assert some.micro_inertias_.sum() == pytest.approx(other.micro_inertias_.sum(), rel=0.1)


def test_directions_have_shapes_too():
    rng = np.random.default_rng(0)
    angles = rng.uniform(0, 2 * np.pi, (2, 400))
    heights = np.array([[0.2], [1.5]])
    cones = np.stack([np.cos(angles), np.sin(angles), heights + 0 * angles], axis=2)
    rows = cones.reshape(-1, 3) * rng.uniform(0.1, 9.0, (800, 1))
    model = LinkageDPMeans(metric="cosine", random_state=0).fit(rows)
    assert adjusted_rand_score(np.repeat([0, 1], 400), model.labels_) == 1


@pytest.mark.parametrize(
    "rows",
    [np.zeros((5, 2)), np.repeat([[0.0], [1.0], [5.0]], 4, axis=0), np.arange(3.0)[:, np.newaxis]],
    ids=["equal", "three points", "few"],
)
def test_few_points_are_clustered(rows):
    model = LinkageDPMeans(random_state=0).fit(rows)
    distinct = len(np.unique(rows, axis=0))
    assert 1 <= model.n_clusters_ <= distinct
    assert len(model.cluster_tree_) == len(model.groups_) - 1
    assert len(np.unique(model.labels_)) == model.n_clusters_


def test_a_fit_that_stops_early_keeps_the_choice_of_the_summary():
    moons = make_moons(1000, noise=0.05, random_state=0)[0]
    with pytest.warns(Warning, match="max_iter=1"):
        model = LinkageDPMeans(max_iter=1, random_state=0).fit(moons)
    assert model.choice_.n_clusters == 2
    assert "by chance" not in model.choice_.reason


def test_max_iter_groups_the_micro_clusters_it_has():
    with pytest.warns(Warning, match="max_iter=2"):
        model = LinkageDPMeans(-0.1, 0.05, max_iter=2, random_state=0).fit(ROWS)
    assert model.n_iter_ == 2
    assert len(model.groups_) > model.n_clusters_
    np.testing.assert_array_equal(model.predict(ROWS), model.labels_)


# Runs


@pytest.fixture
def data(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    return str(tmp_path / "rows.npy")


def test_a_run_is_loaded_as_it_was_fitted(tmp_path, data, fitted):
    run, out = tmp_path / "run.zarr", tmp_path / "out.zarr"
    same(fit(data, run, LinkageDPMeans(random_state=0)), fitted)
    loaded = load(run)
    same(loaded, fitted)
    assert loaded.choice_ == fitted.choice_
    assert loaded.links_left_out_ == 0
    stored = zarr.open_group(run, mode="r").attrs["dask_dpmeans"]["parameters"]
    given = set(fitted.get_params()) - {"random_state"}
    assert set(stored) == given | {"seed"}  # and nothing that was learned
    np.testing.assert_array_equal(loaded.predict(ROWS), fitted.labels_)
    np.testing.assert_array_equal(loaded.labels_at(3, ROWS), fitted.labels_at(3))
    with pytest.raises(InputError, match="X must be given: a run does not keep"):
        loaded.labels_at(3)
    predict(run, data, out)
    np.testing.assert_array_equal(arrays.open_whole(Location.at(out) / "label")[:], fitted.labels_)
    report(run, tmp_path / "page.html")
    assert "dask-dpmeans shapes" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("stop_after", [1, 5, "last"])
def test_a_run_that_was_killed_goes_on_to_the_same_bytes(tmp_path, data, fitted, stop_after):
    run, last = tmp_path / "run.zarr", fitted.n_iter_

    def stop(step, record, n_rows):
        if step == (last if stop_after == "last" else stop_after):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(data, run, LinkageDPMeans(random_state=0), on_step=stop)
    model = fit(data, run, LinkageDPMeans(random_state=0), resume=True)
    same(model, fitted)
    assert [each.objective for each in model.history_] == [
        each.objective for each in fitted.history_
    ]


def test_a_run_goes_on_with_the_prices_that_were_given_alone(tmp_path, data):
    run = tmp_path / "run.zarr"
    first = fit(data, run, LinkageDPMeans(random_state=0))
    with pytest.raises(InputError, match=r"other parameters: micro_penalty .*, not 0\.3"):
        fit(data, run, LinkageDPMeans(micro_penalty=0.3, random_state=0), resume=True)
    with pytest.raises(InputError, match=r"other parameters: penalty .*, not -0\.9"):
        fit(data, run, LinkageDPMeans(-0.9, random_state=0), resume=True)
    again = fit(data, run, LinkageDPMeans(random_state=0), resume=True)
    assert again.micro_centers_.tobytes() == first.micro_centers_.tobytes()
    given = LinkageDPMeans(micro_penalty=0.3, random_state=0)
    second = fit(data, run, given, force=True)
    with pytest.raises(InputError, match=r"other parameters: micro_penalty 0\.3, not auto"):
        fit(data, run, LinkageDPMeans(random_state=0), resume=True)
    assert fit(data, run, given, resume=True).penalty_ == second.penalty_


def test_a_run_that_stopped_at_max_iter_does_not_go_on(tmp_path, data):
    run = tmp_path / "run.zarr"
    with pytest.warns(Warning, match="max_iter=2"):
        fit(data, run, LinkageDPMeans(-0.1, 0.05, max_iter=2, random_state=0))
    with pytest.raises(InputError, match="stopped at max_iter, and its micro-clusters are grouped"):
        fit(data, run, LinkageDPMeans(-0.1, 0.05, random_state=0), resume=True)


def test_a_tree_that_is_none_is_an_error_that_names_it(tmp_path, data, monkeypatch):
    result = Method.result

    def forged(*given):
        found = result(*given)
        tree, names = found["tree"]
        return {**found, "tree": (np.zeros_like(tree), names)}

    monkeypatch.setattr(Method, "result", forged)
    with pytest.raises(CorruptStoreError, match="the array tree holds no merges"):
        fit(data, tmp_path / "run.zarr", LinkageDPMeans(-0.1, 0.05, random_state=0))


@pytest.mark.parametrize("asked", [[], ["--clusters", "3"]])
def test_the_next_best_number_is_fitted_by_the_command_that_is_shown(tmp_path, data, asked):
    run, other, page = (str(tmp_path / name) for name in ("run.zarr", "other.zarr", "page.html"))
    done = CliRunner().invoke(main, ["shapes", data, run, "--seed", "0", *asked])
    second = load(run).choice_.alternatives[1]
    shown = re.search("next best +([0-9,]+) clusters? with (.*) \\(score", done.output)
    assert int(shown[1].replace(",", "")) == second.n_clusters
    done = CliRunner().invoke(main, ["shapes", data, other, "--seed", "0", *shown[2].split()])
    assert done.exit_code == 0, done.output
    assert load(other).n_clusters_ == second.n_clusters
    report(run, page)
    found = re.findall("dask-dpmeans shapes .*clusters-.*", Path(page).read_text())
    assert found
    assert all("--micro-penalty" in each and "--clusters" not in each for each in found)


def test_the_command_fits_and_shows(tmp_path, data, fitted):
    run = str(tmp_path / "run.zarr")
    done = CliRunner().invoke(main, ["shapes", data, run, "--seed", "0"])
    assert done.exit_code == 0, done.output
    assert f"clusters    2, of {len(fitted.groups_)} micro-clusters" in done.output
    assert "chosen from the rows" in done.output
    same(load(run), fitted)
    asked = ["--clusters", "3", "--micro-penalty", "0.05", "--seed", "0", "--force"]
    done = CliRunner().invoke(main, ["shapes", data, run, *asked])
    assert done.exit_code == 0, done.output
    assert load(run).n_clusters_ == 3
    done = CliRunner().invoke(main, ["shapes", data, run, "--penalty", "-2", "--force"])
    assert done.exit_code == 2
    assert "penalty must be a number >= -1 and < 0, got -2.0" in done.output


# Refusals


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"penalty": 0.0}, "penalty must be a number >= -1 and < 0, got 0.0"),
        ({"penalty": -1.5}, "penalty must be a number >= -1 and < 0, got -1.5"),
        ({"penalty": "best"}, "penalty must be a number from -1 to below 0 or 'auto', got 'best'"),
        ({"micro_penalty": 0}, "micro_penalty must be a finite number > 0, got 0"),
        ({"micro_penalty": "low"}, "micro_penalty must be a number > 0 or 'auto', got 'low'"),
        ({"n_clusters": 0}, "n_clusters must be an integer >= 1 or None, got 0"),
        ({"n_clusters": 2, "penalty": -0.5}, "penalty must be 'auto' with n_clusters, got -0.5"),
        ({"metric": "manhattan"}, "metric must be"),
    ],
)
def test_parameters_that_cannot_be_used_are_named(given, text):
    with pytest.raises(InputError, match=text.replace("(", r"\(")):
        LinkageDPMeans(**given).fit(ROWS)


def test_more_clusters_than_micro_clusters_are_refused(fitted):
    with pytest.raises(InputError, match="n_clusters must be at most the number of micro-clusters"):
        LinkageDPMeans(n_clusters=5, micro_penalty=1e6).fit(ROWS)
    with pytest.raises(InputError, match="n_clusters must be at most the number of micro-clusters"):
        LinkageDPMeans(n_clusters=2).fit(np.ones((5, 2)))
    with pytest.raises(InputError, match="n_clusters must be at most the number of rows, 600, got"):
        LinkageDPMeans(n_clusters=601).fit(ROWS)
    with pytest.raises(InputError, match="n_clusters must be at most the number of micro-clusters"):
        fitted.labels_at(600)
    with pytest.raises(TooManyClustersError, match="max_clusters=3"):
        LinkageDPMeans(max_clusters=3, random_state=0).fit(ROWS)


def test_a_given_price_that_leaves_one_cluster_is_told_so():
    rng = np.random.default_rng(13)
    rows = np.concatenate([rng.normal(size=(60, 2)), rng.normal([2.5, 0.0], 1.0, (60, 2))])
    model = LinkageDPMeans(penalty=-0.13, random_state=0).fit(rows)
    assert model.n_clusters_ == model.choice_.n_clusters == 1
