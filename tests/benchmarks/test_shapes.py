"""The sets of shapes are what they say, and all methods have their cells.  Never a time."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import shapes
from click.testing import CliRunner
from labelled_sets import LabelledSet, Reference
from scipy.spatial import cKDTree

NAMES = [name for name in shapes.METHODS if not name.startswith("spectral")]
if find_spec("genieclust") is None:
    NAMES.remove("Genie told k")


@pytest.fixture(scope="module")
def sets() -> dict[str, LabelledSet]:
    return {each.name: each for each in shapes.made(3, 1800)}


@pytest.mark.parametrize(
    ("name", "k"),
    [
        ("rings", 3),
        ("moons", 2),
        ("spirals", 3),
        ("unequal", 7),
        ("stretched", 4),
        ("band", 3),
        ("uniform", 1),
    ],
)
def test_clusters_of_a_set_lie_apart(sets: dict[str, LabelledSet], name: str, k: int) -> None:
    one = sets[name]
    (reference,) = one.references
    assert one.numbers == [k]
    assert reference.counted.all()
    neighbors = cKDTree(one.rows).query(one.rows, 2)[1][:, 1]
    assert np.mean(reference.labels[neighbors] == reference.labels) > 0.98


@pytest.mark.parametrize("name", shapes.NOISY)
def test_noise_is_no_cluster_and_lies_all_over(sets: dict[str, LabelledSet], name: str) -> None:
    noisy = sets[f"{name}, noise"]
    noise = ~noisy.references[0].counted
    assert noise.sum() == 180
    assert noisy.numbers == sets[name].numbers
    spread = noisy.rows[noise].max(axis=0) - noisy.rows[noise].min(axis=0)
    assert (spread > 0.9 * np.ptp(noisy.rows, axis=0)).all()


def test_a_method_that_is_told_k_is_told_that_of_each_reference() -> None:
    everything = np.ones(6, bool)
    references = tuple(
        Reference(np.array(labels), everything)
        for labels in ([1, 1, 1, 2, 2, 2], [1, 1, 2, 2, 3, 3], [1, 1, 1, 1, 2, 2])
    )
    data = LabelledSet("six", np.arange(6.0)[:, np.newaxis], references, False)
    seen: list[int] = []

    def pairs(rows: np.ndarray, told: int, most: int) -> np.ndarray:
        seen.append(told)
        return np.arange(6) * told // 6

    best = shapes.found_by(shapes.Entry(pairs, told=True), data, 60.0)
    assert seen == [2, 3]
    assert best.agreement == 1.0


def test_all_methods_have_their_cells_and_ours_finds_the_band() -> None:
    result = CliRunner().invoke(shapes.main, ["--rows", "600"], catch_exceptions=False)
    assert "failed" not in result.output
    cells, summary = result.stdout.split("\n\n")
    header, _, *lines = cells.splitlines()
    assert header == f"| set | rows | k | {' | '.join(NAMES)} |"
    assert len(lines) == len(shapes.SHAPES) + len(shapes.NOISY)
    assert lines[7].startswith("| band * | 600 x 2 | 3 | **3** 1.00 | **3** 1.00 |")
    assert [line.split(" | ")[0] for line in summary.splitlines()[2:]] == [f"| {n}" for n in NAMES]


def test_sets_come_from_a_folder_and_json_has_their_results(tmp_path: Path) -> None:
    (tmp_path / "shapes").mkdir()
    rows = np.random.default_rng(0).normal(size=(60, 2)) + 20 * (np.arange(60) % 2)[:, np.newaxis]
    np.savez(tmp_path / "shapes" / "two.npz", X=rows, y0=np.arange(60) % 2 + 1)
    options = ["--data", str(tmp_path), "--json"]
    result = CliRunner().invoke(shapes.main, options, catch_exceptions=False)
    (two,) = json.loads(result.stdout)
    assert (two["name"], two["numbers"], list(two["found"])) == ("two", [2], NAMES)
    assert two["found"][shapes.OURS_TOLD]["agreement"] == 1.0


def test_images_are_digits_and_those_of_a_folder(tmp_path: Path) -> None:
    np.savez(tmp_path / "mnist10.npz", X=np.eye(20), y=np.arange(20) % 10)
    digits, mnist = shapes.images(tmp_path)
    assert (digits.name, digits.rows.shape, digits.numbers) == ("digits", (1797, 64), [10])
    assert (mnist.name, mnist.rows.shape, mnist.numbers) == ("mnist10", (20, 20), [10])
    assert "spectral told k" in shapes.methods(with_spectral=True)


def test_a_folder_without_shapes_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(shapes.main, ["--data", str(tmp_path)])
    assert result.exit_code == 2
    assert "the folder of --data has no sets in shapes/" in result.output
