"""The examples run."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs_and_prints(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {"shared_clusters.py": ["1"], "moons_and_rings.py": ["300"]}
    monkeypatch.setattr("sys.argv", [str(path), *small.get(path.name, [])])
    runpy.run_path(str(path), run_name="__main__")
    assert "clusters" in capsys.readouterr().out


def test_neighbors_find_moons_and_rings_and_others_do_not() -> None:
    example = runpy.run_path(str(EXAMPLES[0].parent / "moons_and_rings.py"))
    for rows, truth in example["data_sets"](300).values():
        scores = {name: example["best"](tried(rows), truth)[0] for name, tried in example["METHODS"]}
        assert scores.pop("SpectralDPMeans, nearest_neighbors") >= 0.99
        assert max(scores.values()) < 0.8
