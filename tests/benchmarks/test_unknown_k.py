"""The sets of known clusters are what they say, and all methods have their cells.  Never a time."""

import json
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import labelled_sets
import numpy as np
import pytest
import unknown_k
from click.testing import CliRunner
from labelled_sets import LabelledSet
from sklearn.metrics import adjusted_rand_score

RNG = np.random.default_rng(0)
TWO = LabelledSet.made("two", np.array([[0.0], [0.1], [5.0], [5.1]]), np.array([0, 0, 1, 1]))


def made(name: str) -> LabelledSet:
    """A small set."""
    (one,) = labelled_sets.synthetic([name], seed=3, share=0.2)
    return one


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("pair-8", [2]),
        ("balls-20", [20]),
        ("grid-100", [100]),
        ("levels-4x5", [20, 4]),
        ("levels-3x3x3", [27, 9, 3]),
        ("cube-50", [1]),
    ],
)
def test_a_set_that_is_made_has_the_clusters_of_its_name(name: str, numbers: list[int]) -> None:
    one = made(name)
    assert one.numbers == numbers
    for reference in one.references:
        assert reference.counted.all()
        assert len(reference.labels) == len(one.rows)


@pytest.mark.parametrize("name", ["levels-4x5", "levels-3x3x3"])
def test_groups_lie_apart_from_other_groups_at_each_level(name: str) -> None:
    one = made(name)
    for reference in one.references:
        centers = [
            one.rows[reference.labels == label].mean(axis=0)
            for label in range(reference.n_clusters)
        ]
        distances = np.linalg.norm(one.rows[:, np.newaxis] - centers, axis=2)
        assert adjusted_rand_score(reference.labels, distances.argmin(axis=1)) > 0.95


def test_points_are_as_far_apart_as_asked() -> None:
    points = labelled_sets.apart(RNG, 30, 2, 8.0)
    distances = np.linalg.norm(points[:, np.newaxis] - points, axis=2)
    assert distances[np.triu_indices(30, 1)].min() >= 8.0


def test_rows_of_a_ball_fill_it() -> None:
    norms = np.linalg.norm(made("ball-10").rows, axis=1)
    assert norms.max() <= 1.0
    assert np.mean(norms**10) == pytest.approx(0.5, abs=0.05)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of labelled sets, and of others."""
    rows = RNG.standard_normal((6, 2))
    (tmp_path / "shapes").mkdir()
    noisy = {"y0": [1, 1, 1, 2, 2, 0], "y1": [1, 1, 1, 1, 1, 1]}
    np.savez(tmp_path / "shapes" / "sipu_s1.npz", X=rows, **noisy)
    np.savez(tmp_path / "s1.npz", X=rows[::-1], y=[0, 0, 1, 1, 1, 1])
    np.savez(tmp_path / "other.npz", X=rows + 1.0, y=[0, 0, 1, 1, 1, 1], centers=rows[:2])
    np.savez(tmp_path / "unlabelled.npz", X=rows)
    np.savez(tmp_path / "gaps.npz", X=np.where(rows > 0, rows, np.nan), y=[0, 0, 1, 1, 1, 1])
    return tmp_path


def test_files_are_read_once_and_zero_is_noise_among_the_shapes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shape, other = labelled_sets.stored(folder, [])
    assert (shape.name, shape.numbers, shape.is_round) == ("sipu_s1", [2, 1], True)
    assert (other.name, other.numbers, other.is_round) == ("other", [2], False)
    assert shape.references[0].counted.tolist() == [True] * 5 + [False]
    assert other.references[0].counted.all()
    told = capsys.readouterr().err
    assert "unlabelled has no labels or no finite rows: left out" in told
    assert "gaps has no labels" in told


@pytest.mark.parametrize(
    ("wanted", "names"), [(["shapes"], ["sipu_s1"]), (["s1"], ["s1"]), (["other", "s1"], None)]
)
def test_sets_are_named_alone_or_as_shapes(
    folder: Path, wanted: list[str], names: list[str] | None
) -> None:
    assert [one.name for one in labelled_sets.stored(folder, wanted)] == (names or wanted)


def test_the_reference_that_suits_best_counts_without_its_noise(folder: Path) -> None:
    shape, _ = labelled_sets.stored(folder, [])
    for labels in ([7, 7, 7, 3, 3, 3], [7, 7, 7, 3, 3, -1], [0] * 6):
        found = unknown_k.outcome(lambda *_, given=labels: np.array(given), shape, 9, 60.0)
        assert found.agreement == 1.0
        assert found.n_clusters in shape.numbers
    assert unknown_k.outcome(lambda *_: np.arange(6), shape, 9, 60.0).n_clusters == 6


def test_a_method_is_stopped_at_its_limit_and_may_fail(capsys: pytest.CaptureFixture[str]) -> None:
    def endless(*_: object) -> None:
        for _ in count():
            pass

    def broken(*_: object) -> None:
        raise ValueError("no such thing")

    stopped = unknown_k.outcome(endless, TWO, 9, 0.05)
    assert stopped.stopped
    assert stopped.n_clusters is None
    failed = unknown_k.outcome(broken, TWO, 9, 60.0)
    assert not failed.stopped
    assert [unknown_k.cell(stopped), unknown_k.cell(failed)] == ["stopped", "failed"]
    assert "two: ValueError: no such thing" in capsys.readouterr().err


def test_a_summary_counts_round_sets_and_sets_of_one_cluster() -> None:
    found = {
        unknown_k.OURS: unknown_k.Found(1.0, 2, 0.75),
        unknown_k.TOLD: unknown_k.Found(2.0, 2, 0.8),
    }
    sets = [
        unknown_k.Comparison("round", (9, 1), [3, 2], True, found),
        unknown_k.Comparison("long", (9, 1), [2], False, found),
        unknown_k.Comparison("one", (9, 1), [1], True, found),
    ]
    *_, line, _ = unknown_k.summary(sets).splitlines()
    assert line == "| DPMeans() | 1 of 1 | 0 of 1 | 0 of 1 | .75 | .75 | 3.00 | 1 |"
    assert unknown_k.times(sets).splitlines()[2] == "| round | 1.00 s | 2 |"
    assert unknown_k.results(sets).splitlines()[3].startswith("| long * | 9 x 1 | 2 | **2** .75 |")


OPTIONS = ["--rows-fraction", "0.05", "--only", "pair-2,ball-2", "--most", "4"]


def test_all_methods_have_their_cells_and_ours_finds_the_clusters() -> None:
    result = CliRunner().invoke(unknown_k.main, OPTIONS, catch_exceptions=False)
    assert "failed" not in result.output
    cells, times, summary = result.stdout.split("\n\n")
    header, _, pair, ball = cells.splitlines()
    names = [name for name, _ in unknown_k.PEERS.values()]
    if find_spec("pyclustering") is None:
        names = names[:-2]
        assert "x-means needs pyclustering: left out" in result.stderr
    names = [unknown_k.OURS, *names, unknown_k.TOLD]
    assert header == f"| set | rows | k | {' | '.join(names)} |"
    assert pair.startswith("| pair-2 | 90 x 2 | 2 | **2** ")
    assert ball.startswith("| ball-2 | 100 x 2 | 1 | **1** 1.00 |")
    assert len(times.splitlines()) == 4
    assert [line.split(" | ")[0] for line in summary.splitlines()[2:]] == [f"| {n}" for n in names]


def test_json_has_what_the_tables_have() -> None:
    options = [*OPTIONS, "--peers", "hdbscan", "--json"]
    result = CliRunner().invoke(unknown_k.main, options, catch_exceptions=False)
    pair, ball = json.loads(result.stdout)
    assert (pair["name"], pair["shape"], pair["numbers"]) == ("pair-2", [90, 2], [2])
    assert list(ball["found"]) == [unknown_k.OURS, "HDBSCAN", unknown_k.TOLD]
    assert ball["found"][unknown_k.TOLD]["n_clusters"] == 1


def test_sets_that_are_not_there_are_refused() -> None:
    result = CliRunner().invoke(unknown_k.main, ["--only", "nowhere"])
    assert result.exit_code == 2
    assert "no such sets: see --only and --data" in result.output
