"""Clusters for others: the JSON says all that labels need, and scikit-learn's own KMeans gives the same labels."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.cluster import KMeans

from dask_dpmeans import (
    DPMeans,
    GraphCutDPMeans,
    HDPMeans,
    KernelDPMeans,
    OnlineDPMeans,
    SpectralDPMeans,
    fit,
    load,
)
from dask_dpmeans.api.export import as_json, as_pipeline, export
from dask_dpmeans.cli import main
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.gibbs import GibbsMixture

FITS: dict[str, tuple[DPMeans, dict[str, Any]]] = {
    "plain": (DPMeans(9.0, random_state=0), {}),
    "search": (DPMeans(40.0, search=True, random_state=0), {}),
    "columns": (DPMeans(9.0, random_state=0), {"columns": [3, 0]}),
    "scaled": (DPMeans(0.3, random_state=0), {"scale": "std"}),
    "cosine": (DPMeans(0.1, metric="cosine", random_state=0), {}),
    "all": (DPMeans(0.1, metric="cosine", random_state=0), {"columns": [3, 0, 1], "scale": "std"}),
}


def draw(dtype: Any, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (
        rng.uniform(-9, 9, (6, 4))[rng.integers(6, size=500)] + rng.standard_normal((500, 4))
    ).astype(dtype)


@pytest.fixture(params=FITS)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    method, options = FITS[request.param]
    fit(draw(np.float64), tmp_path / "run.zarr", method, **options)
    return tmp_path / "run.zarr"


def labels_of(described: dict[str, Any], rows: np.ndarray) -> np.ndarray:
    """Compute labels by arithmetic alone, as the guide does."""
    rows = rows if described["columns"] is None else rows[:, described["columns"]]
    rows = rows if described["scale"] is None else rows / described["scale"]
    if described["metric"] == "cosine":
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return ((rows[:, None] - np.array(described["centers"])) ** 2).sum(axis=2).argmin(axis=1)


def test_rows_are_labelled_from_the_json_alone(run: Path, tmp_path: Path) -> None:
    others = draw(np.float64, seed=1)
    export(run, tmp_path / "model.json")
    described = json.loads((tmp_path / "model.json").read_text())
    np.testing.assert_array_equal(labels_of(described, others), load(run).predict(others))


def test_numbers_are_read_back_to_the_bit(run: Path) -> None:
    model = load(run)
    described = json.loads(as_json(model))
    assert np.array(described["centers"]).tobytes() == model.cluster_centers_.tobytes()
    assert np.array(described["weights"]).tobytes() == model.cluster_weights_.tobytes()
    if model.feature_scale_ is not None:
        assert np.array(described["scale"]).tobytes() == model.feature_scale_.tobytes()
    assert described["penalty"] == model.penalty
    assert described["parameters"]["random_state"] == 0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_kmeans_has_our_centers_to_the_bit_and_gives_our_labels(run: Path, dtype: Any) -> None:
    model, others = load(run), draw(dtype, seed=1)
    served = as_pipeline(model)
    assert type(served[-1]) is KMeans
    assert served[-1].cluster_centers_.tobytes() == model.cluster_centers_.tobytes()
    np.testing.assert_array_equal(served.predict(others), model.predict(others))


def test_what_is_served_needs_no_module_of_ours(run: Path) -> None:
    assert b"dask_dpmeans" not in pickle.dumps(as_pipeline(load(run)))


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 12), st.integers(1, 5), st.floats(-1e9, 1e9), st.integers(0, 2**32 - 1))
def test_centers_far_from_the_origin_and_near_each_other_are_kept_to_the_bit(
    k: int, d: int, offset: float, seed: int
) -> None:
    model = DPMeans(1.0).fit(np.zeros((1, d)))
    model.cluster_centers_ = offset + np.random.default_rng(seed).standard_normal((k, d)) * 1e-6
    assert as_pipeline(model)[-1].cluster_centers_.tobytes() == model.cluster_centers_.tobytes()


def test_a_divisor_that_scikit_learn_would_take_for_zero_is_kept(tmp_path: Path) -> None:
    rows = draw(np.float64) * 1e-18
    model = fit(rows, tmp_path / "run.zarr", DPMeans(0.3), scale="std")
    np.testing.assert_array_equal(as_pipeline(model).predict(rows), model.predict(rows))


def test_a_model_in_memory_and_a_stream_are_exported_too() -> None:
    rows = draw(np.float64)
    for model in (
        DPMeans(9.0).fit(rows),
        OnlineDPMeans(9.0).fit(rows),
        DPMeans(9.0).fit(csr_array(rows)),
    ):
        for form in (rows, csr_array(rows)):
            np.testing.assert_array_equal(as_pipeline(model).predict(form), model.predict(rows))
        np.testing.assert_array_equal(
            labels_of(json.loads(as_json(model)), rows), model.predict(rows)
        )


@pytest.mark.parametrize(
    "model",
    [
        HDPMeans(9.0, 40.0),
        KernelDPMeans(0.5),
        KernelDPMeans(0.5, approximation="fourier"),
        SpectralDPMeans(500.0),
        GraphCutDPMeans(-0.5),
        GibbsMixture(1.0, max_iter=2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_model_whose_labels_are_no_nearest_centers_is_refused(model: Any) -> None:
    for asked in (as_json, as_pipeline):
        with pytest.raises(
            InputError, match=f"{type(model).__name__} does not label a row by the nearest of its"
        ):
            asked(model)


def call(*arguments: Any) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, result.output


def test_the_command_writes_the_file_and_never_over_another(tmp_path: Path) -> None:
    fit(draw(np.float64), tmp_path / "run.zarr", DPMeans(9.0, random_state=0))
    out = tmp_path / "model.json"
    assert call("export", tmp_path / "run.zarr", out) == (0, f"{tmp_path / 'run.zarr'}: {out}\n")
    assert out.read_text() == as_json(load(tmp_path / "run.zarr")) + "\n"
    code, said = call("export", tmp_path / "run.zarr", out)
    assert (code, "holds a model: --force writes over it" in said) == (2, True)
    assert call("export", tmp_path / "run.zarr", out, "--force")[0] == 0
    out.write_text("{}")
    code, said = call("export", tmp_path / "run.zarr", out, "--force")
    assert (code, "is not a model of this package" in said, out.read_text()) == (2, True, "{}")
    code, said = call("export", tmp_path / "none.zarr", tmp_path / "other.json")
    assert (code, "holds no run of this package" in said) == (2, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.json", "run.zarr"]
