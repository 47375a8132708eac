"""Data frames in, data frames out: `set_output` of every estimator with distances, and of pipelines."""

import re

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pytest
import zarr
from sklearn import clone, config_context
from sklearn.decomposition import PCA
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import has_fit_parameter

from dask_dpmeans import (
    DPMeans,
    HDPMeans,
    InputError,
    KernelDPMeans,
    LinkageDPMeans,
    OnlineDPMeans,
    SpectralDPMeans,
    SplitMergeDPMeans,
)

ROWS = np.random.default_rng(0).normal(size=(40, 3)) + np.arange(40)[:, None] % 2 * 9.0
FRAME = pd.DataFrame(ROWS, columns=["a", "b", "c"], index=[f"r{row}" for row in range(40)])
MODELS = (
    DPMeans(20.0),
    HDPMeans(20.0, 20.0),
    OnlineDPMeans(20.0),
    SplitMergeDPMeans(20.0),
    KernelDPMeans(0.9),
    SpectralDPMeans(0.5, random_state=0),
    LinkageDPMeans(random_state=0),
)
WEIGHTED = [model for model in MODELS if has_fit_parameter(model, "sample_weight")]
WEIGHTS = np.arange(40) % 3 + 0.5


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
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_pipelines_pass_names_on(form, model):
    frame = FRAME if form == "pandas" else pl.from_pandas(FRAME)
    steps = make_pipeline(StandardScaler(), PCA(2, random_state=0), clone(model))
    found = steps.set_output(transform=form).fit(frame)
    assert list(found[-1].feature_names_in_) == ["pca0", "pca1"]
    rows = found[:-1].transform(frame).to_numpy()
    plain = clone(model).fit(rows)
    assert found[-1].labels_.tobytes() == plain.labels_.tobytes()
    assert found[-1].objective_ == plain.objective_
    np.testing.assert_array_equal(found.predict(frame), plain.predict(rows))


@pytest.mark.parametrize("model", WEIGHTED, ids=lambda model: type(model).__name__)
def test_weights_are_routed_through_a_pipeline(model):
    with config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=True)
        last = clone(model).set_fit_request(sample_weight=True)
        last.set_score_request(sample_weight=True)
        found = make_pipeline(scaler, last).fit(ROWS, sample_weight=WEIGHTS)
        rows = StandardScaler().fit(ROWS, sample_weight=WEIGHTS).transform(ROWS)
        plain = clone(model).fit(rows, sample_weight=WEIGHTS)
        assert found[-1].labels_.tobytes() == plain.labels_.tobytes()
        assert found[-1].cluster_weights_.tobytes() == plain.cluster_weights_.tobytes()
        assert plain.cluster_weights_.sum() == WEIGHTS.sum() != len(ROWS)
        expected = plain.score(rows, sample_weight=WEIGHTS)
        assert found.score(ROWS, sample_weight=WEIGHTS) == expected
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            make_pipeline(StandardScaler(), clone(model)).fit(ROWS, sample_weight=WEIGHTS)


def test_groups_are_routed_through_a_pipeline():
    groups = np.arange(40) % 4
    with config_context(enable_metadata_routing=True):
        last = HDPMeans(20.0, 20.0).set_fit_request(groups=True).set_predict_request(groups=True)
        found = make_pipeline(StandardScaler(), last).fit(ROWS, groups=groups)
        rows = StandardScaler().fit_transform(ROWS)
        plain = HDPMeans(20.0, 20.0).fit(rows, groups=groups)
        assert found[-1].labels_.tobytes() == plain.labels_.tobytes()
        predicted = found.predict(ROWS, groups=groups)
        np.testing.assert_array_equal(predicted, plain.predict(rows, groups=groups))


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
