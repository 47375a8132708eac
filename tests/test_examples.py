"""The examples run, and what they claim is so."""

import runpy
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
SMALL = {
    "clusters_of_any_shape.py": ["600"],
    "graph_cuts.py": ["100"],
    "colors_of_an_image.py": ["--step", "8"],
    "single_cells.py": ["--cells", "900"],
    "earthquakes.py": ["--rows", "1500"],
    "out_of_core.py": ["--rows", "20000", "--workers", "1"],
    "submit_to_cluster.py": ["--rows", "20000"],
    "shared_clusters.py": ["1"],
    "moons_and_rings.py": ["150"],
    "three_gaussians.py": ["--sweeps", "100", "--orders", "3"],
    "uci_table.py": ["--splits", "1", "--sweeps", "60"],
    "image_patches.py": ["--rows", "700", "--clusters", "5", "--sweeps", "1"],
}

WITH_FIGURE = [path.name for path in EXAMPLES if '"--figure"' in path.read_text(encoding="utf-8")]


def example(name: str) -> SimpleNamespace:
    """What an example defines."""
    return SimpleNamespace(**runpy.run_path(str(EXAMPLES[0].parent / name)))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs_prints_and_draws_its_figure(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    figure, words = tmp_path / "figure.png", SMALL.get(path.name, [])
    draws = path.name in WITH_FIGURE and find_spec("matplotlib") is not None
    if draws:
        words = [*words, "--figure", str(figure)]
    monkeypatch.setattr("sys.argv", [str(path), *words])
    code: object = None
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as end:
        code = end.code
    assert not code
    said = capsys.readouterr().out
    assert "clusters" in said
    if draws and path.name == "shared_clusters.py":
        assert said.endswith(f"figure: {figure}\n")
    if draws:
        assert figure.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_says_what_it_takes(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [str(path), "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(path), run_name="__main__")
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("Usage: ")


def test_the_sets_of_figure_2d_have_25_rows_of_five_clusters() -> None:
    sets, truth = example("shared_clusters.py").draw(0)
    assert {(len(rows), len(set(labels))) for rows, labels in zip(sets, truth, strict=True)} == {
        (25, 5)
    }


def test_neighbors_find_moons_and_rings_and_others_do_not() -> None:
    moons = example("moons_and_rings.py")
    for rows, truth in moons.data_sets(400).values():
        scores = {name: moons.best(tried(rows), truth)[0] for name, tried in moons.METHODS}
        for found in ("SpectralDPMeans, nearest_neighbors", "KernelDPMeans, diffusion"):
            assert scores.pop(found) >= 0.99
        assert max(scores.values()) < 0.8


def test_eight_shapes_are_found_told_nothing() -> None:
    any_shape = example("clusters_of_any_shape.py")
    drawn = any_shape.shapes(1000)
    assert len(drawn) == 8
    for rows, truth in drawn.values():
        assert any_shape.adjusted_rand_score(truth, any_shape.ours(rows, 0)) > 0.97


def test_three_gaussians_are_found_in_any_order_as_the_paper_says() -> None:
    three = example("three_gaussians.py")
    rows, truth = three.draw()
    fits = three.in_orders(rows, truth, three.farthest_first(rows, 3).penalty)
    assert len(fits) == 100
    assert max(fit.iterations for fit in fits) <= 8
    assert {fit.clusters for fit in fits} == {3}
    assert np.mean([fit.agreement for fit in fits]) == pytest.approx(0.89, abs=0.01)


def test_three_clusters_stand_over_the_longest_interval_of_penalties() -> None:
    three = example("three_gaussians.py")
    penalties = np.geomspace(5.0, 100.0, 40)
    k, first, last = three.longest(
        three.intervals(penalties, three.clusters_at(three.draw()[0], penalties))
    )
    assert k == 3
    assert last / first > 1.5


def test_the_sampler_finds_three_gaussians_and_with_a_prior_on_alpha_more() -> None:
    three = example("three_gaussians.py")
    tuned, learned = (three.chain(*three.draw(), 1000, alpha) for alpha in (0.01, None))
    assert len(tuned.clusters) == 100
    assert set(three.late(tuned.clusters)) <= {3, 4}
    assert three.late(tuned.agreement).mean() == pytest.approx(0.89, abs=0.03)
    assert learned.clusters.max() > 3


def test_the_table_of_uci_sets_splits_and_fills_as_it_says() -> None:
    uci = example("uci_table.py")
    assert uci.filled(np.array([[1, 5], [np.nan, 5], [2, np.nan], [2, 4]])).tolist() == [
        [1, 5],
        [2, 5],
        [2, 5],
        [2, 4],
    ]
    data = uci.DataSet(np.arange(10.0)[:, np.newaxis], np.arange(10) % 2)
    validation, clustered = uci.split(data, 3)
    assert (len(validation.rows), len(clustered.rows), data.k) == (3, 7, 2)
    assert sorted([*validation.rows[:, 0], *clustered.rows[:, 0]]) == list(range(10))
    assert [name for name, _ in uci.data_sets(None)] == ["wine", "iris"]


def test_wine_and_iris_come_within_three_hundredths_of_the_published_table() -> None:
    uci = example("uci_table.py")
    for name, data in uci.data_sets(None):
        splits = [uci.split(data, seed)[1] for seed in range(10)]
        found = np.mean([uci.dp_means(each, data.k) for each in splits])
        told = np.mean([uci.k_means(each, data.k, seed) for seed, each in enumerate(splits)])
        assert (found, told) == pytest.approx(uci.PUBLISHED[name][:2], abs=0.03)


def test_uci_sets_are_read_from_a_folder(tmp_path: Path) -> None:
    uci = example("uci_table.py")
    np.savez(tmp_path / "car.npz", X=np.array([[1.0], [np.nan]]), y=np.array([0, 1]))
    *_, (name, data) = uci.data_sets(tmp_path)
    assert (name, data.rows.tolist(), data.k) == ("car", [[1.0], [1.0]], 2)


def test_local_minima_are_those_of_the_papers_figures() -> None:
    minima = example("local_minima.py")
    stuck, across, radius, price, many, searched = minima.figure_1().values()
    assert stuck.objective > 5 * across.objective
    assert across.objective == pytest.approx(radius.objective) == pytest.approx(price.objective)
    assert (many.clusters, searched.clusters) == (2, 4)
    few, full = minima.figure_2().values()
    assert {one.objective for one in few.values()} == {120.0}
    assert [full[name].objective for name in ("batch", "online", "search")] == [
        2100.0,
        2100.0,
        200.0,
    ]
    assert full["split-merge"].clusters == 2
    few, full = minima.figure_3().values()
    assert (
        {one.clusters for one in few.values()}
        == {full["batch"].clusters, full["online"].clusters}
        == {2}
    )
    costs = [full[name].objective for name in ("search", "split-merge", "split", "batch")]
    assert costs == sorted(costs)
    assert full["search"].clusters == 5


def test_table_5_is_made_of_what_the_folder_holds(tmp_path: Path) -> None:
    minima = example("local_minima.py")
    assert not list(minima.table_5(None))
    np.savez(tmp_path / "mnist10.npz", X=np.random.default_rng(0).standard_normal((200, 10)))
    [(name, penalty, _, found)] = minima.table_5(tmp_path)
    assert (name, penalty, list(found)) == ("mnist10", 1000.0, list(minima.METHODS))


def test_image_patches_are_covered_with_leaves_and_the_same_for_a_seed(tmp_path: Path) -> None:
    images = example("image_patches.py")
    first, second = (np.concatenate(list(images.patches(700))) for _ in range(2))
    assert (first.shape, first.dtype) == ((700, 128), np.uint8)
    assert np.array_equal(first, second)
    assert (first == 0).mean() < 0.02
    assert first[:512].std() > 40
    assert np.array_equal(images.write(tmp_path / "rows.zarr", 700)[:], first)


def test_image_patches_settle_before_their_centers_repeat(tmp_path: Path) -> None:
    images = example("image_patches.py")
    images.write(tmp_path / "rows.zarr", 1000)
    penalty = images.farthest_first(tmp_path / "rows.zarr", 8).penalty
    speed = images.dp_means(tmp_path / "rows.zarr", tmp_path / "run.zarr", penalty)
    assert speed.clusters > 1
    assert 1 < speed.settled <= speed.iterations


@pytest.mark.parametrize("name", WITH_FIGURE)
def test_a_figure_without_matplotlib_is_refused_at_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = example(name)
    monkeypatch.setitem(made.main.callback.__globals__, "find_spec", lambda _: None)
    answer = CliRunner().invoke(made.main, ["--figure", "figure.png"])
    assert answer.exit_code == 1
    assert "a figure needs matplotlib: pip install 'dask-dpmeans[plot]'" in answer.output
