"""Data frames in, data frames out: `set_output` of every estimator with distances, and of pipelines."""

import re

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pytest
import zarr
from sklearn import config_context
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dask_dpmeans import DPMeans, HDPMeans, InputError, KernelDPMeans, LinkageDPMeans, OnlineDPMeans

ROWS = np.random.default_rng(0).normal(size=(40, 3)) + np.arange(40)[:, None] % 2 * 9.0
FRAME = pd.DataFrame(ROWS, columns=["a", "b", "c"], index=[f"r{row}" for row in range(40)])
MODELS = (
    DPMeans(20.0),
    HDPMeans(20.0, 20.0),
    OnlineDPMeans(20.0),
    KernelDPMeans(0.9),
    LinkageDPMeans(random_state=0),
)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_distances_come_in_the_frame_that_is_asked_for(model):
    plain = model.fit(FRAME).transform(FRAME)
    named = list(model.get_feature_names_out())
    found = model.set_output(transform="pandas").transform(FRAME)
    pd.testing.assert_frame_equal(found, pd.DataFrame(plain, FRAME.index, named))
    found = model.set_output(transform="polars").transform(pl.from_pandas(FRAME))
    assert found.columns == named
    np.testing.assert_array_equal(found.to_numpy(), plain)


@pytest.mark.parametrize("form", ["pandas", "polars"])
def test_pipelines_pass_names_on(form):
    frame = FRAME if form == "pandas" else pl.from_pandas(FRAME)
    steps = make_pipeline(StandardScaler(), PCA(2, random_state=0), DPMeans(0.9))
    found = steps.set_output(transform=form).fit(frame)
    assert list(found[-1].feature_names_in_) == ["pca0", "pca1"]
    rows = found[:-1].transform(frame).to_numpy()
    plain = DPMeans(0.9).fit(rows)
    assert found[-1].cluster_centers_.tobytes() == plain.cluster_centers_.tobytes()
    np.testing.assert_array_equal(found.predict(frame), plain.predict(rows))


@pytest.mark.parametrize("form", ["pandas", "polars"])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_frame_of_lazy_distances_is_refused(model, form):
    model.fit(FRAME.to_numpy()).set_output(transform=form)
    lazy = {"X.compute": da.from_array(ROWS, chunks=9), "X[:]": zarr.array(ROWS)}
    for way, rows in lazy.items():
        with pytest.raises(
            InputError, match=rf"\(transform=\"default\"\) .* pass {re.escape(way)}"
        ):
            model.transform(rows)
        assert isinstance(model.set_output(transform="default").transform(rows), da.Array)
        model.set_output(transform=form)
    with config_context(transform_output=form), pytest.raises(InputError, match="X is a dask"):
        DPMeans(20.0).fit(FRAME).transform(dd.from_pandas(FRAME, npartitions=2))
