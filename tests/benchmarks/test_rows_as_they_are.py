"""Noise, counts, categories and missing values at a small size: data is what it says, and all methods have their cells.

Never a time.
"""

from importlib.util import find_spec
from itertools import product
from json import loads
from pathlib import Path

import categories
import counts
import divergence_passes
import missing
import noise
import numpy as np
import pytest
import sparse_counts
from click.testing import CliRunner, Result
from labelled_sets import around, grid
from sklearn.metrics import f1_score
from told_k import Outcome, Task, agreement, at_k, outcomes

from dask_dpmeans import DPMeans


def ran(command: object, *options: str) -> Result:
    return CliRunner().invoke(command, list(options), catch_exceptions=False)


def rows_of_four() -> tuple[np.ndarray, np.ndarray]:
    labels = np.repeat(np.arange(4), 30)
    return around(np.random.default_rng(0), 20.0 * np.eye(4), labels), labels


@pytest.mark.parametrize("k", [1, 2, 4, 8])
def test_a_price_is_found_that_gives_k(k: int) -> None:
    model = at_k(lambda price: DPMeans(price, search=True, random_state=0), rows_of_four()[0], k)
    assert model.n_clusters_ == k


def test_where_k_jumps_the_nearest_number_is_taken() -> None:
    rows = np.array([[0.0, 0.0], [0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    model = at_k(lambda price: DPMeans(price, search=True, random_state=0), rows, 2)
    assert model.n_clusters_ in (1, 2, 3)
    rows, _ = rows_of_four()
    prices = []

    def jumping(price: float) -> DPMeans:
        prices.append(price)
        return DPMeans(price if price < 50.0 else 1e30, search=True, random_state=0)

    assert at_k(jumping, rows, 2).n_clusters_ == 1
    assert len(prices) < 15


def test_a_table_averages_repeats_and_has_no_cell_where_a_method_lacks_its_form() -> None:
    found = [
        Outcome("a", "x", 3, 0.5, 0.1, 1.0),
        Outcome("a", "x", 4, 0.7, 0.3, 1.0),
        Outcome("b", "y", 2, 1.0, 1.0, 1.0),
    ]
    assert agreement(found, mutual=True).splitlines()[2:] == [
        "| x | .600 (least .500) (NMI .200), k 3-4 |  |",
        "| y |  | 1.000 (NMI 1.000), k 2 |",
    ]
    task = Task("two", {"rows": np.zeros((2, 1))}, np.array([0, 1]))
    methods = {"one": lambda task: task.forms["others"], "two": lambda _: np.array([5, -1])}
    (only,) = outcomes([task], methods)
    assert (only.method, only.n_clusters, only.rand) == ("two", 1, 1.0)


def test_documents_are_nearer_to_their_own_topic_than_to_others() -> None:
    task = counts.documents(3, 200, 300.0)
    found = task.forms["counts"]
    assert (found == np.round(found)).all()
    sums = found.sum(axis=1)
    assert counts.LENGTHS[0] <= sums.min()
    assert sums.max() <= counts.LENGTHS[1]
    assert np.mean(counts.likeliest(task) == task.classes) > 0.99
    spread = [
        np.std(counts.documents(0, 5, c).forms["topics"], axis=0).mean() for c in (300.0, 2e3)
    ]
    assert spread[0] > 2 * spread[1]


def test_counts_of_proportions_are_best_found_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "TOPICS", 4)
    task = counts.documents(0, 120, 1_000.0)
    np.savez(tmp_path / "cells.npz", X=task.forms["counts"], y=task.classes)
    wanted = {name: counts.PEERS[name] for name in ("KMeans", "KMeans, log1p")}
    wanted |= {"ours": counts.OURS["DPMeans, multinomial"]}
    (raw, logarithms, ours) = outcomes(counts.tasks(0, 0, tmp_path / "cells.npz"), wanted)
    assert (raw.task, ours.n_clusters) == ("cells", counts.TOPICS)
    assert ours.rand > max(raw.rand, logarithms.rand) + 0.2


def test_the_table_of_counts_has_a_line_for_each_method(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "CONCENTRATIONS", (300.0,))
    monkeypatch.setattr(counts, "TOPICS", 3)
    monkeypatch.setattr(counts, "WORDS", 60)
    result = ran(counts.main, "--rows", "90", "--seeds", "1")
    header, _, *lines = result.stdout.splitlines()
    assert header == "| method | documents, 300 |"
    assert [each.split(" | ")[0] for each in lines] == [
        f"| {name}" for name in (*counts.PEERS, *counts.OURS)
    ]


def test_holes_are_as_many_as_told_and_hide_the_same_rows() -> None:
    first, second, *_ = missing.tasks(None, 2, 0.5)
    holes = np.isnan(first.forms["holes"])
    assert abs(holes.mean() - missing.SHARE) < 0.03
    assert (first.forms["holes"][~holes] == first.forms["complete"][~holes]).all()
    assert (holes != np.isnan(second.forms["holes"])).any()
    assert first.forms["complete"].shape[1] == missing.PROJECTIONS


def test_rows_with_holes_go_where_the_whole_rows_went_rather_than_where_means_do() -> None:
    task = next(missing.tasks(None, 1, 0.5))
    whole, mean, ours = (
        method(task)
        for method in (
            missing.PEERS["DPMeans, complete"],
            missing.PEERS["mean, KMeans"],
            missing.OURS["DPMeans, observed"],
        )
    )
    same = [
        one.rand
        for labels in (mean, ours)
        for one in outcomes([Task("", {}, whole)], {"": lambda _, labels=labels: labels})
    ]
    assert same[1] > max(same[0], 0.85)


def test_sets_of_missing_values_are_those_of_the_folder_and_two_that_are_shipped(
    tmp_path: Path,
) -> None:
    np.savez(tmp_path / "s2.npz", X=np.eye(3, 2), y=np.arange(3))
    found = {
        name: (rows.shape, len(classes)) for name, rows, classes in missing.complete(tmp_path, 1)
    }
    assert found == {"s2": ((3, 8), 3), "iris": ((150, 4), 150), "wine": ((178, 13), 178)}


def test_the_table_of_missing_values_has_a_line_for_each_method(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = next(missing.complete(None, 0.1))
    monkeypatch.setattr(missing, "complete", lambda *_: [first])
    result = ran(missing.main, "--seeds", "1")
    header, _, *lines = result.stdout.splitlines()
    assert header == "| method | grid |"
    assert [each.split(" | ")[0] for each in lines] == [
        f"| {name}" for name in (*missing.PEERS, *missing.OURS)
    ]


def test_codes_number_the_values_of_each_column_and_keep_holes() -> None:
    rows = np.array([[3.0, 5.0], [1.0, np.nan], [3.0, 4.0]])
    np.testing.assert_array_equal(categories.codes(rows), [[1, 1], [0, np.nan], [1, 0]])


def test_one_hot_columns_have_a_one_for_each_column() -> None:
    task = categories.made(50)
    assert (task.forms["one-hot"].sum(axis=1) == 12).all()
    assert np.isnan(task.forms["codes"]).any()
    assert not np.isnan(task.forms["ordinal"]).any()
    np.testing.assert_allclose(task.forms["mixed"][:, [10, 11]].std(axis=0), 1.0)


def test_the_table_of_categories_has_a_line_for_each_method_that_is_installed() -> None:
    result = ran(categories.main)
    header, _, *lines = result.stdout.splitlines()
    assert header == "| method | made |"
    expected = [*categories.PEERS, *categories.OURS]
    if find_spec("kmodes") is None:
        expected = [name for name in expected if not name.startswith("k-")]
        assert "need kmodes: left out" in result.stderr
    found = dict(each.strip("| ").split(" | ") for each in lines)
    assert list(found) == expected
    agreements = {name: float(text.split()[0]) for name, text in found.items()}
    assert agreements["DPMeans, categorical"] > agreements["KMeans, ordinal codes"] + 0.1


def test_categories_come_from_a_folder(tmp_path: Path) -> None:
    rows = np.array([[1.0, 2.0, 0.0, 3.0], [np.nan, 1.0, 1.0, 0.0]])
    for name in categories.ORDERED:
        np.savez(tmp_path / f"{name}.npz", X=np.tile(rows, (3, 2)), y=np.arange(6) % 2)
    found = list(categories.tasks(tmp_path))
    assert [each.name for each in found] == list(categories.ORDERED)
    assert [each.forms["others"] for each in found if "others" in each.forms] == [
        [0, 1, 4, 5, 6, 7],
        [1, 4, 6, 7],
    ]


@pytest.fixture(scope="module")
def clean() -> noise.Clean:
    return next(noise.made(0.4))


def test_the_error_of_centers_is_that_of_the_nearest(clean: noise.Clean) -> None:
    true, found = clean.centers, clean.centers[::-1] + np.array([3.0, 4.0])
    far = [min(np.square(one - other).sum() for other in found) for one in true]
    assert noise.displacement(true, found) == pytest.approx(np.mean(far))
    assert clean.error < clean.sigma**2 / 10
    assert clean.sigma == pytest.approx(1.0, rel=0.1)


def test_scores_are_those_of_the_rows_that_count(clean: noise.Clean) -> None:
    data = noise.Noisy.of(clean, 0.1, 0)
    assert data.noise.sum() == round(0.1 * len(clean.rows))
    told = np.random.default_rng(0).random(len(data.rows)) < 0.3
    rows = list(zip(data.rows, data.noise, told, strict=True))
    far = [
        min(np.linalg.norm(row - center) for center in clean.centers) > 3 * clean.sigma
        for row, _, _ in rows
    ]
    clear = [
        (is_noise, said)
        for (_, is_noise, said), away in zip(rows, far, strict=True)
        if is_noise == away
    ]
    every = [
        (is_noise, said)
        for (_, is_noise, said), away in zip(rows, far, strict=True)
        if away or not is_noise
    ]
    expected = [f1_score(*zip(*pairs, strict=True)) for pairs in (clear, every)]
    assert data.scores(told) == pytest.approx(expected)
    assert data.best() >= data.scores(data.far)[1]


def test_noise_is_told_and_leaves_centers_where_they_were(clean: noise.Clean) -> None:
    data = [noise.Noisy.of(clean, 0.1, 0)]
    wanted = {"plain": noise.PEERS["DPMeans"], **noise.CEILINGS, **noise.OURS}
    found = noise.line(data, wanted)[1]
    assert found["centers without noise"][0] == 1.0
    assert found["without far noise"][1:] == (1.0, 1.0)
    assert found["plain"][1] == 0.0
    for name in noise.OURS:
        error, clear, _ = found[name]
        assert clear > 0.9
        assert error < found["plain"][0]


def test_the_table_of_noise_has_a_line_for_each_share() -> None:
    result = ran(noise.main, "--share", "0.3", "--seeds", "1")
    header, _, *lines = result.stdout.splitlines()[1:]
    methods = " | ".join((*noise.PEERS, *noise.CEILINGS, *noise.OURS))
    assert header == f"| set, noise | best F1 of all | {methods} |"
    assert [each.split(" | ")[0] for each in lines] == [f"| grid, {s:.0%}" for s in noise.SHARES]


def test_stored_sets_have_the_published_centers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noise, "SETS", ("one", "two"))
    data = grid("", np.random.default_rng(0), 0.3, 2)
    corners = 6.0 * np.array(list(product(range(2), repeat=2)))
    labels = data.references[0].labels
    np.savez(tmp_path / "one.npz", X=data.rows, y=labels, centers=corners)
    np.savez(tmp_path / "two.npz", X=data.rows, y=labels)
    one, two = noise.stored(tmp_path)
    np.testing.assert_array_equal(one.centers, corners)
    np.testing.assert_allclose(two.centers[0], data.rows[labels == 0].mean(axis=0))


def test_a_share_of_the_rows_is_farther_than_the_limit() -> None:
    shape = divergence_passes.Shape(2_000, 8, 5)
    rows = shape.rows()
    centers = rows[:5].astype(np.float64)
    limit = divergence_passes.outlier_limit(rows, centers, 0.1)
    model = DPMeans(1e9, init=centers, random_state=0).fit(rows)
    squared = np.square(rows - model.cluster_centers_[model.labels_]).sum(axis=1)
    assert np.mean(squared > limit) == pytest.approx(0.1, abs=0.01)


def test_the_tables_of_passes_have_all_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(divergence_passes, "SHAPES", (divergence_passes.Shape(1, 3, 4),))
    monkeypatch.setattr(
        divergence_passes, "elsewhere", lambda _, folder: asked.append(folder) or 1.0
    )
    package = str(Path(__file__).parents[2])
    result = ran(divergence_passes.main, "--rows", "900", "--repeats", "1", "--before", package)
    assert result.stdout.startswith("900 x 3, 4 centers")
    for name in divergence_passes.MOST:
        assert f"{name} / squared" in result.stdout
    assert "search, outliers / search" in result.stdout
    assert "squared, now / squared, before  1.00" in result.stdout
    assert asked == [Path(package)] * 4


@pytest.mark.parametrize("divergence", sparse_counts.DIVERGENCES)
def test_counts_as_csr_rows_give_what_they_give_as_dense_rows(divergence: str) -> None:
    size = "--rows", "400", "--columns", "60", "--clusters", "4", "--density", "0.1"
    csr, dense = (
        loads(ran(sparse_counts.main, *size, "--alone", divergence, kind).stdout)
        for kind in ("csr", "dense")
    )
    assert csr["objective"] == pytest.approx(dense["objective"], rel=1e-9)
    assert csr["found"] == dense["found"] > 1
    for name in ("objective", "found"):
        del csr[name], dense[name]
    text = " ".join(map(str, sparse_counts.lines({"csr": [csr], "dense": [dense]})))
    assert all(name in text for name in csr)


@pytest.mark.timeout(120)
def test_a_pass_elsewhere_takes_time() -> None:
    shape = divergence_passes.Shape(900, 3, 4)
    assert divergence_passes.elsewhere(shape, Path(__file__).parents[2]) > 0.0


def test_the_pass_with_outliers_leaves_their_share_out() -> None:
    rows = divergence_passes.Shape(2_000, 8, 5).rows()
    problem = divergence_passes.Problem(rows, rows[:5].astype(np.float64))
    nearest = np.square(rows[:, np.newaxis] - problem.centers).sum(axis=2).min(axis=1)
    for limit in (np.inf, float(np.quantile(nearest, 0.9))):
        found = divergence_passes.search_pass(problem, limit)
        assert found.halves.weights.sum() == np.sum(nearest <= limit)
