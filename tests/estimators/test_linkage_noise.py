"""Noise of `LinkageDPMeans`: rows of label -1."""

from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from sklearn.datasets import make_circles

from dask_dpmeans import InputError, LinkageDPMeans, fit, load, predict
from dask_dpmeans.cli import main

RNG = np.random.default_rng(0)
CIRCLES = make_circles(800, noise=0.03, factor=0.4, random_state=0)[0]
FAR = RNG.uniform(-1, 1, (12, 2)) + 4.0 * RNG.choice([-1.0, 1.0], (12, 2))
ROWS = np.concatenate([CIRCLES, FAR])
MARKED = np.arange(len(ROWS)) >= len(CIRCLES)
PRICES = {"micro_penalty": 0.2, "n_clusters": 2, "random_state": 0}


@pytest.fixture(scope="module")
def model() -> LinkageDPMeans:
    return LinkageDPMeans(**PRICES, noise=0.2).fit(ROWS)


def test_rows_far_from_clusters_are_noise_and_others_are_as_without(model: LinkageDPMeans) -> None:
    np.testing.assert_array_equal(model.labels_ == -1, MARKED)
    other = LinkageDPMeans(**PRICES).fit(ROWS)
    assert other.labels_.min() == 0
    assert not other.micro_noise_.any()
    assert model.groups_.tobytes() == other.groups_.tobytes()
    assert model.objective_ == other.objective_
    np.testing.assert_array_equal(model.labels_, np.where(MARKED, -1, other.labels_))


def test_weights_of_clusters_leave_noise_out(model: LinkageDPMeans) -> None:
    counts = np.bincount(model.labels_[~MARKED]).astype(float)
    assert model.cluster_weights_.tolist() == counts.tolist()
    assert model.micro_weights_[model.micro_noise_].sum() == len(FAR)
    assert model.description().facts["noise"] == (
        f"12 rows in {np.count_nonzero(model.micro_noise_)} micro-clusters"
    )
    assert model.description().clusters.endswith("; noise: " + model.description().facts["noise"])


def test_labels_of_all_ways_agree(model: LinkageDPMeans) -> None:
    assert model.predict(ROWS).tobytes() == model.labels_.tobytes()
    assert model.labels_at(2).tobytes() == model.labels_at(2, ROWS).tobytes()
    assert model.labels_at(2).tobytes() == model.labels_.tobytes()
    lazy = LinkageDPMeans(**PRICES, noise=0.2).fit(da.from_array(ROWS, chunks=(97, 2)))
    assert lazy.labels_.compute().tobytes() == model.labels_.tobytes()
    probable = model.predict_proba(ROWS).argmax(axis=1)
    np.testing.assert_array_equal(probable, model.groups_[model.micro_labels_])


def test_a_run_keeps_noise(tmp_path: Path, model: LinkageDPMeans) -> None:
    data, run, out = (str(tmp_path / name) for name in ("rows.zarr", "run.zarr", "out.zarr"))
    zarr.create_array(data, data=ROWS, chunks=(100, 2))
    fit(data, run, LinkageDPMeans(**PRICES, noise=0.2))
    loaded = load(run)
    assert loaded.noise == 0.2
    assert loaded.labels_.compute().tobytes() == model.labels_.tobytes()
    assert loaded.micro_noise_.tobytes() == model.micro_noise_.tobytes()
    assert loaded.cluster_weights_.tobytes() == model.cluster_weights_.tobytes()
    predict(run, data, out)
    assert zarr.open_array(out + "/label")[:].tobytes() == model.labels_.tobytes()
    predict(run, data, out, soft=2, force=True)
    assert zarr.open_array(out + "/label")[:].tobytes() == model.labels_.tobytes()
    own = zarr.open_array(out + "/top_label")[:, 0]
    np.testing.assert_array_equal(own, model.groups_[model.micro_labels_])


def test_the_command_takes_noise(tmp_path: Path, model: LinkageDPMeans) -> None:
    data, run = str(tmp_path / "rows.zarr"), str(tmp_path / "run.zarr")
    zarr.create_array(data, data=ROWS, chunks=(100, 2))
    words = ["shapes", data, run, "--micro-penalty", "0.2", "--clusters", "2", "--noise", "0.2"]
    answer = CliRunner().invoke(main, [*words, "--scale", "none"])
    assert answer.exit_code == 0, answer.output
    np.testing.assert_array_equal(load(run).labels_, model.labels_)


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (0, "noise must be a finite number > 0 or None, got 0"),
        (np.nan, "noise must be a finite number > 0 or None, got nan"),
        ("much", "noise must be a finite number > 0 or None, got 'much'"),
        (1.0, "noise must be below 1, got 1.0: it is a share of a density"),
    ],
)
def test_noise_is_a_share(noise: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        LinkageDPMeans(noise=noise).fit(ROWS)
