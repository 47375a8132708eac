"""A fit of places that is killed and resumed ends as one that is not; its stores are gone afterwards.  Never a time."""

from functools import partial
from pathlib import Path

import numpy as np
import places
import pytest
from click.testing import CliRunner
from ratios import Line
from sklearn.metrics import pairwise_distances

from dask_dpmeans import DPMeans, load

N, PART = 3_000, 2_048
MEMORY = 16 * 10**9


def test_places_lie_around_their_towns() -> None:
    found = places.Places(Path(), PART, PART, PART).part(0)
    towns, shares = places.towns()
    assert np.abs(np.sin(np.radians(towns[:, 0]))).max() <= places.HEIGHT
    assert shares.sum() == pytest.approx(1)
    assert len(shares) == places.TOWNS
    away = partial(pairwise_distances, metric="haversine")
    angles = away(np.radians(found, dtype=np.float64), np.radians(towns)).min(axis=1)
    assert 6371 * angles.max() < places.RADIUS
    assert found[:, 1].min() < -170
    assert found[:, 1].max() > 170


def test_a_killed_fit_is_resumed_to_the_same_end(tmp_path: Path) -> None:
    made, run = places.Places(tmp_path / "places.zarr", N, PART, PART), tmp_path / places.RUN
    made.write()
    found = [line.what for line in places.lines(made, run, MEMORY, 1)]
    assert found == [
        "stored",
        "clusters",
        "steps and passes",
        "until killed, resumed",
        "in all",
        "processor, without killed workers",
        "memory of a process",
    ]
    rows = np.concatenate([made.part(0), made.part(PART)])
    whole = DPMeans(places.RADIUS, metric="haversine", random_state=0).fit(rows)
    np.testing.assert_array_equal(np.asarray(load(run).labels_), whole.labels_)


def test_the_stores_are_gone_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lines(made: places.Places, run: Path, *_: int) -> list[Line]:
        assert made.written.exists()
        run.mkdir()
        return [Line("in all", "1 s")]

    monkeypatch.setattr(places, "lines", lines)
    monkeypatch.setattr(places.Places, "write", lambda self: self.written.touch())
    options = [str(tmp_path), "--rows", str(N)]
    result = CliRunner().invoke(places.main, options, catch_exceptions=False)
    assert result.stdout == "3,000 places, 60 km, 2 workers of 2 GB\n  in all  1 s\n"
    assert not list(tmp_path.iterdir())
