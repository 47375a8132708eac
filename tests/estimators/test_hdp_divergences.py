"""Several data sets with counts, categories and holes: lists, stores, the command line, and what is refused."""

import json

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import zarr
from click.testing import CliRunner
from rows_cases import NAMED
from sklearn.metrics import adjusted_rand_score

from dask_dpmeans import (
    DPMeans,
    HDPMeans,
    InputError,
    KernelDPMeans,
    LinkageDPMeans,
    OnlineDPMeans,
    SpectralDPMeans,
    SplitMergeDPMeans,
    fit,
    load,
)
from dask_dpmeans.cli import main
from dask_dpmeans.kernels.bregman import Poisson
from dask_dpmeans.kernels.metrics import Cosine
from dask_dpmeans.report import page

MIXED = {"visits": "poisson", "color": "categorical"}


def people(n_sets=3, n=80):
    """Frames of three kinds of people, of which each set has two, with holes; and the kinds."""
    rng = np.random.default_rng(4)
    frames, kinds = [], []
    for number in range(n_sets):
        kind = rng.choice([[0, 1], [1, 2], [2, 0]][number % 3], n)
        color = np.array(["blue", "green", "red"])[kind]
        frame = pd.DataFrame(
            {
                "age": rng.normal(np.array([25.0, 45.0, 70.0])[kind], 4.0),
                "visits": rng.poisson(np.array([2.0, 9.0, 25.0])[kind]).astype(float),
                "color": color,
            }
        )
        frames.append(frame.mask(rng.random(frame.shape) < 0.1))
        frames[-1]["color"] = pd.Categorical(frames[-1]["color"])  # of each set its own
        kinds.append(kind)
    return frames, np.concatenate(kinds)


def model_of(**parameters):
    given = {"search": True, "divergence": MIXED, "missing": "observed", "random_state": 0}
    return HDPMeans(**{"local_penalty": 20.0, "global_penalty": 60.0} | given | parameters)


@pytest.fixture(scope="module")
def fitted():
    frames, kinds = people()
    return frames, kinds, model_of().fit(frames)


def test_frames_with_other_categories_are_one_table_with_groups(fitted):
    frames, kinds, model = fitted
    assert [list(frame["color"].cat.categories) for frame in frames[:2]] == [
        ["blue", "green"],
        ["green", "red"],
    ]
    whole = pd.concat([frame.astype({"color": object}) for frame in frames], ignore_index=True)
    whole["color"] = pd.Categorical(whole["color"])
    groups = np.repeat(np.arange(3), 80)
    again = model_of().fit(whole, groups=groups)
    assert model.n_clusters_ == 3
    assert model.n_local_clusters_ == 6
    seen = model.labels_ >= 0
    assert adjusted_rand_score(kinds[seen], model.labels_[seen]) > 0.95
    assert again.labels_.tolist() == model.labels_.tolist()
    assert again.categories_ == model.categories_ == {2: ("blue", "green", "red")}
    assert model.predict(frames).tolist() == model.labels_.tolist()
    assert model.predict(whole, groups=groups).tolist() == model.labels_.tolist()
    lazy = dd.from_pandas(whole, npartitions=3)
    assert model_of().fit(lazy, groups=groups).labels_.compute().tolist() == model.labels_.tolist()


def test_holes_are_filled_from_the_centers_of_the_sets(fitted):
    frames, _, model = fitted
    filled = model.impute(frames)
    for number, frame in enumerate(frames):
        part, known = filled[80 * number : 80 * (number + 1)], frame[["age", "visits"]].notna()
        values = frame[["age", "visits"]].to_numpy()
        assert (part[:, :2][known.to_numpy()] == values[known.to_numpy()]).all()
    assert not np.isnan(filled).any()
    labels, hole = model.labels_, np.isnan(np.concatenate([frame["age"] for frame in frames]))
    ages = np.append(model.cluster_centers_[:, 0], np.nan)
    some = hole & (labels >= 0)
    np.testing.assert_allclose(filled[some, 0], ages[labels[some]])
    with pytest.raises(InputError, match="impute needs missing='observed'"):
        HDPMeans(1.0, 2.0).fit([[[0.0], [1.0]]]).impute([[[0.0]]])


def test_both_prices_are_chosen_for_any_costs():
    frames, kinds = people(3, 60)
    chosen = model_of(local_penalty="auto", global_penalty="auto").fit(frames)
    assert chosen.n_clusters_ == 3
    assert chosen.n_local_clusters_ == 6
    assert chosen.cluster_stability_.min() > 0.8
    seen = chosen.labels_ >= 0
    assert adjusted_rand_score(kinds[seen], chosen.labels_[seen]) > 0.95
    given = model_of(local_penalty=chosen.local_penalty_, global_penalty=chosen.global_penalty_)
    assert given.fit(frames).labels_.tolist() == chosen.labels_.tolist()
    lone = DPMeans(divergence=MIXED, missing="observed", random_state=0).fit(frames[0])
    one = model_of(local_penalty="auto", global_penalty="auto").fit(frames[:1])
    assert one.labels_.tolist() == lone.labels_.tolist()
    assert one.local_penalty_ + one.global_penalty_ == pytest.approx(lone.penalty_)


def test_one_data_set_costs_what_dp_means_costs():
    for name in ("poisson", "categorical missing"):
        instance = NAMED[name].instance(3, 24)
        X, weights = instance.rows.X, instance.rows.weights
        penalty = instance.price.penalty
        lone = instance.model(search=True, random_state=0).fit(X, sample_weight=weights)
        one = HDPMeans(
            penalty / 4, 3 * penalty / 4, search=True, random_state=0, **NAMED[name].parameters
        ).fit(X, sample_weight=weights)
        assert one.objective_ <= lone.objective_ * (1 + 1e-12)


@pytest.mark.parametrize("search", [False, True])
def test_from_store_to_store_with_resume_and_back(tmp_path, search):
    instance = NAMED["mixed missing outliers"].instance(2, 60)
    X = instance.rows.X
    X[5] = np.nan
    groups = np.random.default_rng(0).integers(0, 4, 60)
    zarr.create_array(tmp_path / "rows.zarr", data=X, chunks=(25, 3))
    prices = [0.02 * instance.price.penalty, 0.05 * instance.price.penalty]
    given = {"divergence": {0: "squared", 1: "poisson", 2: "categorical"}, "missing": "observed"}

    class StopError(Exception):
        pass

    def stop(*_):
        raise StopError

    def model():
        return HDPMeans(*prices, search=search, random_state=0, **given)

    def stored(run, **how):
        return fit(tmp_path / "rows.zarr", tmp_path / run, model(), groups=groups, **how)

    here, whole = model().fit(X, groups=groups), stored("whole.zarr")
    with pytest.raises(StopError):
        stored("run.zarr", on_step=stop)
    resumed = stored("run.zarr", resume=True, threads=2, memory_limit=20_000)
    lazy = model().fit(da.from_array(X, chunks=(31, 2)), groups=groups)
    for other in (whole, resumed, load(tmp_path / "run.zarr"), lazy):
        assert np.asarray(other.labels_).tolist() == here.labels_.tolist()
        assert other.cluster_centers_.tobytes() == here.cluster_centers_.tobytes()
        assert other.objective_ == here.objective_
    assert here.labels_[5] == -1
    loaded = load(tmp_path / "run.zarr")
    assert loaded.impute(X, groups).tolist() == here.impute(X, groups).tolist()
    assert loaded.predict(X).tolist() == here.predict(X).tolist()
    assert loaded.score(X) == here.score(X)
    assert DPMeans(50.0, init=loaded, **given).fit(X).n_clusters_ >= 1


def test_the_command_line_fits_continues_predicts_and_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frames, kinds = people()
    table = pd.concat([frame.astype({"color": object}) for frame in frames], ignore_index=True)
    table["color"] = pd.Categorical(table["color"])
    table.to_parquet("people.parquet")
    np.save("groups.npy", np.repeat(np.arange(3), 80))
    costs = "--divergence visits=poisson,color=categorical --missing observed --search --seed 0"
    command = f"hdp people.parquet run.zarr --groups groups.npy {costs} --local-penalty 20"

    def run(line):
        result = CliRunner().invoke(main, line.split())
        assert result.exit_code == 0, result.output
        return result.output

    run(f"{command} --global-penalty 60")
    run(f"{command} --global-penalty 60 --resume")
    told = run("show run.zarr")
    assert "visits=poisson" in told
    assert "color: " in told
    assert json.loads(run("show run.zarr --json"))["parameters"]["missing"] == "observed"
    run("predict run.zarr people.parquet labels.zarr --groups groups.npy")
    labels = zarr.open_group("labels.zarr", mode="r")["label"][...]
    assert load("run.zarr").n_clusters_ == 3
    assert labels.tolist() == np.asarray(load("run.zarr").labels_).tolist()
    assert adjusted_rand_score(kinds[labels >= 0], labels[labels >= 0]) > 0.95
    told = page("run.zarr", data=False).command
    assert "--divergence" in told
    assert "--missing observed" in told


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"divergence": Cosine()}, "divergence must be a name, a ColumnDivergence or a dict, got"),
        ({"divergence": "cosine"}, "divergence must be 'squared'|divergence must be one of"),
        ({"missing": "drop"}, "missing must be"),
        (
            {"approximation": "nystroem", "divergence": "poisson"},
            "divergence='poisson' and missing='error' cannot be used with approximation='nystroem'",
        ),
        ({"approximation": "nystroem", "missing": "observed"}, "the features of a kernel are"),
    ],
)
def test_what_makes_no_sense_is_refused(parameters, message):
    with pytest.raises(InputError, match=message):
        HDPMeans(1.0, 2.0, **parameters).fit(np.ones((4, 2)), groups=[0, 0, 1, 1])


def test_a_divergence_of_ones_own_can_be_given():
    rows = np.random.default_rng(0).poisson([[2.0]] * 20 + [[30.0]] * 20, (40, 1)).astype(float)
    groups, prices = np.arange(40) % 2, (5.0, 20.0)
    own = HDPMeans(*prices, search=True, divergence=Poisson(), random_state=0).fit(
        rows, groups=groups
    )
    named = HDPMeans(*prices, search=True, divergence="poisson", random_state=0)
    assert own.labels_.tolist() == named.fit(rows, groups=groups).labels_.tolist()
    assert own.n_clusters_ == 2


@pytest.mark.parametrize(
    "model",
    [
        LinkageDPMeans(-0.1, 0.5),
        KernelDPMeans(1.0),
        SpectralDPMeans(1.0),
        OnlineDPMeans(1.0),
        SplitMergeDPMeans(1.0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_methods_of_complete_numbers_say_what_takes_holes_and_categories(model):
    holes = np.array([[0.0, 1.0], [np.nan, 2.0], [3.0, 4.0]])
    names = ["fit"] + ["partial_fit"] * hasattr(model, "partial_fit")
    for name in names:
        with pytest.raises(
            InputError, match=r"NaN .* row 1.*DPMeans with missing='observed', whose impute"
        ):
            getattr(model, name)(holes)
        with pytest.raises(InputError, match=r"is a masked array.*missing='observed'"):
            getattr(model, name)(np.ma.masked_invalid(holes))
        table = pd.DataFrame({"a": [0.0, 1.0, 2.0], "color": pd.Categorical(["x", "y", "x"])})
        with pytest.raises(
            InputError, match=r"'color' .*DPMeans or HDPMeans\(divergence=\{'color'"
        ):
            getattr(model, name)(table)
