"""`predict_proba` and `margin` of `LinkageDPMeans`, and `predict` with `soft`."""

from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import xarray
import zarr
from click.testing import CliRunner
from scipy.sparse import csr_array
from sklearn.datasets import make_circles

from dask_dpmeans import LinkageDPMeans, fit, load, predict
from dask_dpmeans.cli import main

CIRCLES, _ = make_circles(900, noise=0.09, factor=0.4, random_state=0)


@pytest.fixture(scope="module")
def model() -> LinkageDPMeans:
    return LinkageDPMeans(micro_penalty=0.4, n_clusters=3, random_state=0).fit(CIRCLES)


def shares_of_components(model: LinkageDPMeans, rows: np.ndarray) -> np.ndarray:
    """(n, K), the probabilities of the micro-clusters, by a softmax of densities."""
    squared = ((rows[:, np.newaxis] - model.micro_centers_) ** 2).sum(axis=2)
    exponents = np.log(model.micro_weights_) - squared * model._mixture().precision / 2
    terms = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    return terms / terms.sum(axis=1, keepdims=True)


def test_the_probability_of_a_cluster_is_that_of_its_micro_clusters(model: LinkageDPMeans) -> None:
    assert 3 == model.n_clusters_ < len(model.micro_centers_) / 4
    found = model.predict_proba(CIRCLES, top=9)
    assert isinstance(found, csr_array)
    assert found.shape == (len(CIRCLES), 3)
    expected = shares_of_components(model, CIRCLES) @ np.eye(3)[model.groups_]
    agree = expected.argmax(axis=1) == model.labels_
    assert agree.mean() > 0.9
    np.testing.assert_allclose(found.toarray()[agree], expected[agree], atol=1e-5)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("top", [1, 2, 4])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_the_label_is_the_most_probable(metric: str, top: int) -> None:
    model = LinkageDPMeans(micro_penalty=0.4, n_clusters=3, metric=metric, random_state=0).fit(
        CIRCLES
    )
    found = model.predict_proba(CIRCLES, top=top)
    assert found.indices[found.indptr[:-1]].tobytes() == model.labels_.tobytes()
    np.testing.assert_array_equal(found.argmax(axis=1), model.predict(CIRCLES))
    margin = np.sort(model.predict_proba(CIRCLES, top=2).toarray(), axis=1)
    assert model.margin(CIRCLES).tobytes() == (margin[:, -1] - margin[:, -2]).tobytes()


def test_a_fit_without_groups_has_the_probabilities_of_micro_clusters() -> None:
    model = LinkageDPMeans(-1.0, 0.4, random_state=0).fit(CIRCLES)
    assert model.n_clusters_ == len(model.micro_centers_)
    found = model.predict_proba(CIRCLES, top=99).toarray()[:, model.groups_]
    expected = shares_of_components(model, CIRCLES)
    agree = expected.argmax(axis=1) == model.groups_.argsort()[model.labels_]
    assert agree.mean() > 0.9
    np.testing.assert_allclose(found[agree], expected[agree], atol=1e-5)


def test_chunks_do_not_show(model: LinkageDPMeans) -> None:
    lazy = da.from_array(CIRCLES, chunks=((100, 799, 1), 2))
    found, expected = model.predict_proba(lazy, top=2).compute(), model.predict_proba(CIRCLES, 2)
    assert found.data.tobytes() == expected.data.tobytes()
    assert found.indices.tobytes() == expected.indices.tobytes()
    assert model.margin(lazy).compute().tobytes() == model.margin(CIRCLES).tobytes()


def test_predict_writes_what_the_loaded_run_answers(tmp_path: Path) -> None:
    data, run, out = (str(tmp_path / name) for name in ("rows.zarr", "run.zarr", "out.zarr"))
    zarr.create_array(data, data=CIRCLES, chunks=(128, 2))
    fitted = fit(data, run, LinkageDPMeans(-0.02, 0.4, random_state=0), scale="std")
    plain = predict(run, data, out)
    before = {name: values.values for name, values in xarray.open_zarr(out).items()}
    answer = CliRunner().invoke(main, ["predict", run, data, out, "--soft", "2", "--force"])
    assert answer.exit_code == 0, answer.output
    stored, loaded = xarray.open_zarr(out), load(run)
    assert plain.n_rows == len(CIRCLES)
    for name, values in before.items():  # the distance is to the nearest micro-center
        assert stored[name].values.tobytes() == values.tobytes()
    expected = loaded.predict_proba(CIRCLES, top=2)
    assert expected.toarray().tobytes() == fitted.predict_proba(CIRCLES, top=2).toarray().tobytes()
    used = stored.top_label.values >= 0
    assert stored.probability.values[used].tobytes() == expected.data.tobytes()
    assert stored.top_label.values[used].tobytes() == expected.indices.tobytes()
    assert stored.margin.values.tobytes() == loaded.margin(CIRCLES).tobytes()
