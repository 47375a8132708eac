"""The run store: what is there is whole, and says so last."""

import json
import shutil
import warnings
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import xarray
import zarr
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from dask_dpmeans import CorruptStoreError, DPMeans, InputError, LinkageDPMeans, fit, load, predict
from dask_dpmeans.api.description import fingerprint
from dask_dpmeans.api.synthetic import Synthetic, write_synthetic
from dask_dpmeans.engine.history import Record
from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.errors import LockLostError
from dask_dpmeans.methods.dpmeans import batch
from dask_dpmeans.sources import as_source
from dask_dpmeans.storage import arrays
from dask_dpmeans.storage.arrays import MARKER, sign_attributes
from dask_dpmeans.storage.location import Location
from dask_dpmeans.storage.manifest import FORMAT
from dask_dpmeans.storage.output import _is_free
from dask_dpmeans.storage.run_store import RunStore
from dask_dpmeans.storage.step_log import StepLog


@pytest.fixture
def data(tmp_path: Path) -> str:
    rng = np.random.default_rng(0)
    rows = (
        rng.uniform(-4, 4, (8, 3))[rng.integers(8, size=3000)] + rng.standard_normal((3000, 3))
    ).astype(np.float32)
    array = zarr.create_array(
        tmp_path / "data.zarr", shape=rows.shape, chunks=(700, 3), dtype=rows.dtype
    )
    array[:] = rows
    return str(tmp_path / "data.zarr")


@pytest.fixture
def run(tmp_path: Path, data: str) -> Path:
    fit(data, tmp_path / "run.zarr", DPMeans(16.0, random_state=0))
    return tmp_path / "run.zarr"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run to copy, for tests that read it alone."""
    rows = np.random.default_rng(0).uniform(-4, 4, (60, 3))
    fit(rows, made := tmp_path_factory.mktemp("finished") / "run.zarr", DPMeans(16.0))
    return made


def chunk_files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file() and path.name != "zarr.json")


class InterruptError(Exception):
    pass


def interrupted_after(steps: int) -> Any:
    def on_step(number: int, record: Record, n_rows: int) -> None:
        if number == steps:
            raise InterruptError

    return on_step


def test_xarray_opens_a_run_without_a_warning(run: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opened = xarray.open_zarr(run)
    model = load(run)
    assert opened.labels.dims == ("row",)
    assert opened.cluster_centers.dims == ("cluster", "feature")
    assert opened.labels.dtype == np.int32
    np.testing.assert_array_equal(opened.cluster_centers, model.cluster_centers_)
    np.testing.assert_array_equal(opened.objective, [record.objective for record in model.history_])
    assert opened.sizes["step"] == model.n_iter_


def test_a_run_holds_what_its_centers_give_on_the_data(data: str, run: Path) -> None:
    rows = zarr.open_array(data)[:].astype(np.float64)
    centers = zarr.open_array(run / "cluster_centers")[:]
    squared = np.zeros((len(rows), len(centers)))
    for column in range(3):
        squared += (rows[:, column, np.newaxis] - centers[:, column]) ** 2
    labels = zarr.open_array(run / "labels")[:]
    np.testing.assert_array_equal(labels, squared.argmin(axis=1))
    np.testing.assert_array_equal(zarr.open_array(run / "cluster_weights")[:], np.bincount(labels))
    inertias = np.bincount(labels, squared.min(axis=1))
    np.testing.assert_allclose(zarr.open_array(run / "cluster_inertias")[:], inertias, rtol=1e-12)
    assert squared.min(axis=1).max() <= 16.0


def test_nothing_opens_as_zarr_before_the_result_is_whole(tmp_path: Path, data: str) -> None:
    seen = []

    def on_step(number: int, record: Record, n_rows: int) -> None:
        with pytest.raises(FileNotFoundError, match="run"):
            zarr.open(tmp_path / "run.zarr", mode="r")
        seen.append(number)

    fit(data, tmp_path / "run.zarr", DPMeans(16.0), on_step=on_step)
    assert seen == list(range(1, len(seen) + 1))
    assert seen


def test_an_unfinished_run_does_not_load(tmp_path: Path, data: str) -> None:
    with pytest.raises(InterruptError):
        fit(data, tmp_path / "run.zarr", DPMeans(16.0), on_step=interrupted_after(2))
    with pytest.raises(InputError, match="has not finished"):
        load(tmp_path / "run.zarr")


@pytest.mark.parametrize("steps", [1, 3])
def test_a_resumed_run_ends_in_the_same_bytes(
    tmp_path: Path, data: str, run: Path, steps: int
) -> None:
    other = tmp_path / "other.zarr"
    with pytest.raises(InterruptError):
        fit(data, other, DPMeans(16.0, random_state=0), on_step=interrupted_after(steps))
    numbers = []
    fit(
        data,
        other,
        DPMeans(16.0, random_state=0),
        resume=True,
        on_step=lambda number, *_: numbers.append(number),
    )
    assert numbers[0] == steps + 1
    for name, array in zarr.open_group(run, mode="r").arrays():
        if name != "seconds":
            np.testing.assert_array_equal(zarr.open_array(other / name)[:], array[:], err_msg=name)


def test_resume_refuses_another_input_or_other_parameters(tmp_path: Path, data: str) -> None:
    with pytest.raises(InterruptError):
        fit(data, tmp_path / "run.zarr", DPMeans(16.0), on_step=interrupted_after(1))
    with pytest.raises(InputError, match="begun with other parameters"):
        fit(data, tmp_path / "run.zarr", DPMeans(3.0), resume=True)
    changed = zarr.open_array(data)[:]
    changed[5, 1] += 1
    told = r"run.zarr: the rows in memory are not the rows in .*data.zarr, with which the run began"
    with pytest.raises(InputError, match=told):
        fit(changed, tmp_path / "run.zarr", DPMeans(16.0), resume=True)
    zarr.open_array(data)[:] = changed
    told = r"run.zarr: the rows in .*, or what is given with them, have changed since the run began; give the same"
    with pytest.raises(InputError, match=told):
        fit(data, tmp_path / "run.zarr", DPMeans(16.0), resume=True)


def test_a_resumed_run_tells_how_it_was_begun_in_options(tmp_path: Path, data: str) -> None:
    run, price = tmp_path / "run.zarr", {"search": True, "tol": 0.5}
    few = zarr.open_array(data)[:60]
    zarr.create_array(data, data=few, overwrite=True)  # the best effort takes a minute for 3000
    fit(data, run, DPMeans(16.0, effort="best", **price))
    told = r"effort best, not normal; give the same parameters again \(--effort best\), or --force"
    with pytest.raises(InputError, match=told):
        fit(data, run, DPMeans(16.0, **price), resume=True)
    told = r"method: effort best, not normal, search True, not False; .* \(--penalty 16.0 --search --effort best"
    with pytest.raises(InputError, match=told):
        fit(data, run, DPMeans(16.0, tol=0.5), resume=True)
    with pytest.raises(
        InputError,
        match=r"begun with DPMeans, not LinkageDPMeans; .* again \(dask-dpmeans fit\), or --force",
    ):
        fit(data, run, LinkageDPMeans(), resume=True)
    given = r"penalty 16.0, not 9.0, effort best, not quick; .* \(--penalty 16.0 --effort best\)"
    with pytest.raises(InputError, match=given):
        fit(data, run, DPMeans(9.0, effort="quick", **price), resume=True)


def test_rows_are_the_same_whichever_zero_is_their_least_value() -> None:
    summary = as_source(np.array([[0.0, 1.0], [-0.0, 2.0]]), threads=1).summary
    both = [replace(summary, lowest=np.array([zero, 1.0])) for zero in (0.0, -0.0)]
    assert fingerprint(both[0]) == fingerprint(both[1])
    assert fingerprint(both[0]) != fingerprint(replace(summary, lowest=np.array([1e-300, 1.0])))


def test_resume_of_a_finished_run_changes_nothing(data: str, run: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()}
    fit(data, run, DPMeans(16.0, random_state=0), resume=True)
    assert before == {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()}


def test_a_state_comes_back_to_the_bit(tmp_path: Path) -> None:
    source = as_source(np.random.default_rng(1).standard_normal((500, 2)), block_rows=64)
    steps = list(iterate(source, batch.Method(0.5)))
    store = RunStore.at(tmp_path / "run.zarr")
    store.begin({"format": 1})
    history = [Record.of(step.state, 500, step.seconds) for step in steps]
    for number, step in enumerate(steps, 1):
        store.steps.commit(step.state, history[:number], step.converged)
        state, records, converged = store.steps.restore(batch.State)
        assert (records, converged) == (history[:number], step.converged)
        for field, value in vars(step.state).items():
            assert np.asarray(getattr(state, field)).tobytes() == np.asarray(value).tobytes(), field


def test_a_state_of_a_version_that_kept_less_is_not_gone_on_with(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Newer(batch.State):
        earlier: float = 0.0

    store, source = RunStore.at(tmp_path / "run.zarr"), as_source(np.arange(12.0).reshape(6, 2))
    first = next(iterate(source, batch.Method(4.0)))
    store.steps.commit(first.state, [], False)
    with pytest.raises(InputError, match=r"has no 'earlier': another version .* force=True starts"):
        store.steps.restore(Newer)


def test_a_step_counts_only_once_it_is_committed(tmp_path: Path) -> None:
    source = as_source(np.random.default_rng(1).standard_normal((500, 2)))
    first, second = [step.state for step in iterate(source, batch.Method(0.5))][:2]
    store = RunStore.at(tmp_path / "run.zarr")
    store.begin({"format": 1})
    records = [Record.of(state, 500, 0.0) for state in (first, second)]
    store.steps.commit(first, records[:1], False)
    store.steps.commit(second, records, False)
    assert store.steps.committed() == 2
    # As if the process had died with the second step's arrays written and the commit not.
    (tmp_path / "run.zarr/steps/000002/zarr.json").unlink()
    assert store.steps.restore(batch.State)[0].objective == first.objective


@pytest.mark.parametrize("harm", ["flip", "cut", "empty", "delete"])
def test_damage_is_an_error_that_names_the_array(run: Path, harm: str) -> None:
    for path in chunk_files(run):
        name = path.relative_to(run).parts[0]
        if name in ("steps", "labels", "first_centers"):
            continue
        whole = path.read_bytes()
        if harm == "delete":
            path.unlink()
        else:
            middle = len(whole) // 2
            flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
            path.write_bytes({"flip": flipped, "cut": whole[:middle], "empty": b""}[harm])
        with pytest.raises(CorruptStoreError, match=f"{name}.*(missing|checksum)"):
            load(run)
        path.write_bytes(whole)
    load(run)


def test_a_missing_chunk_of_labels_is_an_error(run: Path) -> None:
    chunk_files(run / "labels")[0].unlink()
    with pytest.raises(CorruptStoreError, match="labels: 1 of 1 chunks are missing"):
        load(run)


def test_labels_of_a_run_that_goes_away_are_an_error(run: Path) -> None:
    """They are read when asked for, and a chunk that is no longer there never reads as -1."""
    model = load(run)
    shutil.rmtree(run)
    with pytest.raises(CorruptStoreError, match=r"chunk c/0 of .*labels is missing"):
        np.asarray(model.labels_)


def test_an_output_that_exists_is_refused(data: str, run: Path) -> None:
    with pytest.raises(
        InputError, match="holds a run: resume=True goes on with it, force=True removes it"
    ):
        fit(data, run, DPMeans(16.0))


def test_force_removes_a_run_of_ours(data: str, run: Path) -> None:
    fit(data, run, DPMeans(1.0), force=True)
    assert load(run).penalty == 1.0


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("kind", ["folder", "file", "zarr"])
def test_nothing_but_ours_is_ever_removed(
    tmp_path: Path, data: str, force: bool, kind: str
) -> None:
    target = tmp_path / "precious"
    if kind == "file":
        target.write_text("precious")
    elif kind == "folder":
        target.mkdir()
        (target / "precious").write_text("precious")
    else:
        zarr.create_array(target, shape=(3,), dtype="f4")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(
        InputError, match="is not an output of this package, so it is never removed"
    ):
        fit(data, target, DPMeans(16.0), force=force)
    assert sorted(tmp_path.rglob("*")) == before


def test_bad_input_writes_nothing(tmp_path: Path, data: str) -> None:
    zarr.open_array(data, mode="r+")[1234, 1] = np.nan
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(
        InputError, match=r"data contains NaN .* at row 1,234 \(chunk 1, its row 534\), column 1"
    ):
        fit(data, tmp_path / "run.zarr", DPMeans(16.0))
    assert sorted(tmp_path.rglob("*")) == before


def test_a_run_of_another_format_is_refused(run: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dask_dpmeans.storage.manifest.FORMAT", 99)
        with pytest.raises(InputError, match=f"format {FORMAT}, this version reads format 99"):
            load(run)


@pytest.mark.parametrize("whole", [True, False])
def test_a_run_of_an_older_format_is_not_gone_on_with_and_that_is_said(
    tmp_path: Path, run: Path, data: str, whole: bool
) -> None:
    older = {"format": 6, "kind": "run", "random_state": 0}
    for group in (run, run / "steps"):
        zarr.open_group(group, mode="r+").attrs.put(
            sign_attributes({MARKER: older, "committed": 1, "converged": False})
        )
    if not whole:
        (run / "zarr.json").unlink()
    before = sorted(run.rglob("*"))
    with pytest.raises(
        InputError,
        match=r"is of format 6, this version reads format 8: open it with the version that",
    ):
        fit(tmp_path / "no rows are asked for", run, DPMeans(16.0), resume=True)
    assert sorted(run.rglob("*")) == before
    assert fit(data, run, DPMeans(16.0), force=True).n_clusters_ > 1


def test_a_changed_digit_in_the_metadata_is_an_error(run: Path) -> None:
    for path, read in (
        (run / "zarr.json", load),
        (run / "steps/zarr.json", lambda run: RunStore.at(run).begun()),
    ):
        path.write_text(path.read_text().replace('"penalty": 16.0', '"penalty": 17.0'))
        with pytest.raises(CorruptStoreError, match="the attributes do not match their digest"):
            read(run)


def test_an_unwritten_result_does_not_read_as_zeros(run: Path) -> None:
    shutil.rmtree(run / "cluster_centers/c")
    assert np.isnan(xarray.open_zarr(run).cluster_centers).all()


def test_no_output_is_written_into_or_around_an_input(tmp_path: Path, data: str, run: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    for target in (data, f"{data}/run.zarr", tmp_path):
        with pytest.raises(InputError, match="lie one within the other"):
            fit(data, target, DPMeans(16.0), force=True)
    with pytest.raises(InputError, match="lie one within the other"):
        fit(zarr.open_array(data), data, DPMeans(16.0), force=True)
    with pytest.raises(InputError, match="lie one within the other"):
        predict(run, data, run, force=True)
    assert sorted(tmp_path.rglob("*")) == before


def test_force_removes_outputs_of_its_own_kind_only(tmp_path: Path, data: str, run: Path) -> None:
    write_synthetic(Synthetic("blobs", 100, 2, 1, seed=0), tmp_path / "synth.zarr")
    predict(run, data, tmp_path / "out.zarr")
    with pytest.raises(InputError, match="of another kind, synthetic data, so it is never removed"):
        fit(data, tmp_path / "synth.zarr", DPMeans(16.0), force=True)
    with pytest.raises(InputError, match="of another kind, predictions, so it is never removed"):
        fit(data, tmp_path / "out.zarr", DPMeans(16.0), force=True)
    other = tmp_path / "other.zarr"
    fit(data, other, DPMeans(16.0))
    with pytest.raises(InputError, match="of another kind, run, so it is never removed"):
        predict(run, data, other, force=True)
    predict(run, data, tmp_path / "out.zarr", force=True)


def test_resume_of_a_finished_run_checks_what_it_is(data: str, run: Path) -> None:
    with pytest.raises(InputError, match="begun with other parameters"):
        fit(data, run, DPMeans(15.0), resume=True)
    with pytest.raises(InputError, match="the rows in memory are not the rows in"):
        fit(zarr.open_array(data)[:] * 2, run, DPMeans(16.0), resume=True)


def test_a_run_that_stopped_at_max_iter_goes_on_with_a_higher_one(
    tmp_path: Path, data: str, run: Path
) -> None:
    other = tmp_path / "other.zarr"
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        fit(data, other, DPMeans(16.0, max_iter=2, random_state=0))
    model = fit(data, other, DPMeans(16.0), resume=True)
    np.testing.assert_array_equal(model.labels_, load(run).labels_)
    assert (model.n_passes_, model.max_iter, model.random_state_) == (load(run).n_passes_, 300, 0)


def test_damaged_input_with_checksums_is_an_error_that_names_it(tmp_path: Path) -> None:
    write_synthetic(Synthetic("blobs", 5000, 2, 3, seed=0), tmp_path / "synth.zarr")
    chunk = next(path for path in chunk_files(tmp_path / "synth.zarr/rows"))
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    with pytest.raises(CorruptStoreError, match=r"rows 0 to 5,000 of .*rows.* cannot be read"):
        fit(tmp_path / "synth.zarr/rows", tmp_path / "run.zarr", DPMeans(16.0))
    chunk.unlink()
    with pytest.raises(CorruptStoreError, match=r"chunk c/0/0 of .*rows is missing"):
        fit(tmp_path / "synth.zarr/rows", tmp_path / "run.zarr", DPMeans(16.0))


def test_load_gives_back_the_estimator(data: str, run: Path) -> None:
    rows = zarr.open_array(data)[:]
    model, fresh = load(run), DPMeans(16.0, random_state=0).fit(rows)
    assert model.get_params() == fresh.get_params()
    assert model.n_passes_ == fresh.n_passes_
    assert [replace(record, seconds=0.0) for record in model.history_] == [
        replace(record, seconds=0.0) for record in fresh.history_
    ]
    np.testing.assert_array_equal(model.cluster_inertias_, fresh.cluster_inertias_)
    np.testing.assert_array_equal(model.labels_.compute(), fresh.labels_)
    np.testing.assert_array_equal(model.predict(rows), fresh.predict(rows))


def test_a_warm_start_begins_at_the_earlier_centers(tmp_path: Path, data: str, run: Path) -> None:
    warm = fit(data, tmp_path / "warm.zarr", DPMeans(16.0, init=str(run), tol=0.0))
    np.testing.assert_array_equal(warm.init, load(run).cluster_centers_)
    assert warm.objective_ <= load(run).objective_


def test_scaling_and_columns_travel_with_the_run(tmp_path: Path, data: str) -> None:
    rows = zarr.open_array(data)[:]
    rows[:, 2] *= 1000
    scaled = fit(rows, tmp_path / "run.zarr", DPMeans(2.0), columns=[2, 0], scale="std")
    deviation = rows[:, [2, 0]].astype(np.float64).std(axis=0)
    np.testing.assert_allclose(scaled.feature_scale_, deviation, rtol=1e-12)
    divided = (rows[:, [2, 0]] / scaled.feature_scale_).astype(np.float32)
    squared = ((divided[:, np.newaxis].astype(np.float64) - scaled.cluster_centers_) ** 2).sum(
        axis=2
    )
    np.testing.assert_array_equal(scaled.labels_.compute(), squared.argmin(axis=1))
    np.testing.assert_array_equal(scaled.predict(rows), squared.argmin(axis=1))
    predict(tmp_path / "run.zarr", rows, tmp_path / "out.zarr")
    np.testing.assert_array_equal(
        zarr.open_array(tmp_path / "out.zarr/label")[:], squared.argmin(axis=1)
    )
    warm = fit(rows, tmp_path / "warm.zarr", DPMeans(2.0, init=scaled), columns=[2, 0], scale="std")
    np.testing.assert_allclose(warm.init, scaled.cluster_centers_ * deviation, rtol=1e-12)


def test_directions_after_scaling_travel_with_the_run(tmp_path: Path, data: str) -> None:
    rows = zarr.open_array(data)[:]
    rows[:, 2] *= 1000
    model = DPMeans(0.5, metric="cosine", tol=0.0)
    found = fit(rows, tmp_path / "run.zarr", model, columns=[2, 0], scale="std")
    divided = rows[:, [2, 0]] / found.feature_scale_
    unit = divided / np.sqrt((divided**2).sum(axis=1, keepdims=True))
    squared = ((unit[:, np.newaxis] - found.cluster_centers_) ** 2).sum(axis=2)
    assert found.get_params()["metric"] == load(tmp_path / "run.zarr").metric == "cosine"
    np.testing.assert_allclose(np.sqrt((found.cluster_centers_**2).sum(axis=1)), 1.0, rtol=1e-14)
    np.testing.assert_array_equal(found.labels_.compute(), squared.argmin(axis=1))
    np.testing.assert_array_equal(found.predict(rows * 8), found.labels_.compute())
    predict(tmp_path / "run.zarr", rows * 0.5, tmp_path / "out.zarr")
    out = xarray.open_zarr(tmp_path / "out.zarr")
    np.testing.assert_array_equal(out.label, found.labels_.compute())
    np.testing.assert_allclose(out.squared_distance, squared.min(axis=1), atol=1e-6)
    warm = fit(
        rows,
        tmp_path / "warm.zarr",
        clone(model).set_params(init=found),
        columns=[2, 0],
        scale="std",
    )
    np.testing.assert_allclose(warm.cluster_centers_, found.cluster_centers_, rtol=1e-12)


@pytest.mark.parametrize("search", [False, True])
def test_a_run_of_directions_that_is_resumed_ends_in_the_same_bytes_and_in_no_other_metric(
    tmp_path: Path, data: str, search: bool
) -> None:
    model = DPMeans(0.2, metric="cosine", search=search, random_state=0)
    whole = fit(data, tmp_path / "whole.zarr", model)
    with pytest.raises(InterruptError):
        fit(data, tmp_path / "run.zarr", model, on_step=interrupted_after(2))
    with pytest.raises(
        InputError, match="begun with other parameters: metric cosine, not euclidean"
    ):
        fit(data, tmp_path / "run.zarr", DPMeans(0.2, search=search, random_state=0), resume=True)
    resumed = fit(data, tmp_path / "run.zarr", model, resume=True)
    assert resumed.cluster_centers_.tobytes() == whole.cluster_centers_.tobytes()
    assert resumed.objective_ == whole.objective_


def test_predictions_are_labels_squared_distances_and_rows_beyond(
    tmp_path: Path, run: Path
) -> None:
    rows = np.random.default_rng(9).standard_normal((2000, 3)) * 4
    found = predict(run, rows, tmp_path / "out.zarr")
    centers = load(run).cluster_centers_
    squared = ((rows[:, np.newaxis] - centers) ** 2).sum(axis=2)
    out = xarray.open_zarr(tmp_path / "out.zarr")
    np.testing.assert_array_equal(out.label, squared.argmin(axis=1))
    np.testing.assert_allclose(out.squared_distance, squared.min(axis=1), rtol=1e-12)
    np.testing.assert_array_equal(out.beyond, squared.min(axis=1) > 16.0)
    assert (found.n_rows, found.beyond) == (2000, int((squared.min(axis=1) > 16.0).sum()))
    assert 0 < found.beyond < 2000


def test_predict_refuses_other_columns(tmp_path: Path, run: Path) -> None:
    with pytest.raises(InputError, match="data has 4 columns, the run was fitted on 3"):
        predict(run, np.zeros((5, 4)), tmp_path / "out.zarr")
    assert not (tmp_path / "out.zarr").exists()


@dataclass(frozen=True)
class FailingWriter:
    """Stands for a task that dies while labels are written."""

    def __call__(self, start: int, answers: Any) -> None:
        raise OSError("disk full")


def test_a_fit_that_dies_while_writing_labels_is_not_whole_and_goes_on(
    tmp_path: Path, data: str, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.zarr"
    with monkeypatch.context() as patch:
        patch.setattr("dask_dpmeans.api.job.Writer", lambda arrays: FailingWriter())
        with pytest.raises(OSError, match="disk full"):
            fit(data, other, DPMeans(16.0, random_state=0))
    with pytest.raises(InputError, match="has not finished"):
        load(other)
    fit(data, other, DPMeans(16.0, random_state=0), resume=True)
    np.testing.assert_array_equal(load(other).labels_.compute(), load(run).labels_.compute())
    assert load(other).n_passes_ == load(run).n_passes_


def test_chunks_that_a_worker_wrote_to_another_disk_are_no_labels(
    tmp_path: Path, data: str, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, out = tmp_path / "other.zarr", tmp_path / "out.zarr"
    write_chunks = arrays.write_chunks

    def write_elsewhere(array: Any, start: int, answer: Any) -> Any:
        digests = write_chunks(array, start, answer)
        if start:
            place = Path(str(array.store_path).removeprefix("file://"))
            (place / "c" / str(start // array.chunks[0])).unlink()
        return digests

    monkeypatch.setattr(arrays, "LATE", (0.0, 0.0))
    lost = "chunks are missing, though tasks wrote them: .* on storage that every worker reaches, .* store"
    kept = r"\. The steps are kept: the fit goes on with resume"
    with monkeypatch.context() as patch:
        patch.setattr(arrays, "write_chunks", write_elsewhere)
        with pytest.raises(InputError, match=f"other.zarr/labels: 46 of 47 {lost}{kept}$"):
            fit(data, other, DPMeans(16.0, random_state=0), block_rows=64)
        with pytest.raises(InputError, match=f"out.zarr/label: 46 of 47 {lost}$"):
            predict(run, data, out, block_rows=64)
    for place in (other, out):
        with pytest.raises(FileNotFoundError):
            zarr.open_group(place, mode="r")
    fit(data, other, DPMeans(16.0, random_state=0), block_rows=64, resume=True)
    np.testing.assert_array_equal(load(other).labels_.compute(), load(run).labels_.compute())


def test_an_output_that_is_moved_away_while_labels_are_written_is_said_so(
    tmp_path: Path, data: str, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_chunks = arrays.write_chunks

    def write_and_move(array: Any, start: int, answer: Any) -> Any:
        digests = write_chunks(array, start, answer)
        place = Path(str(array.store_path).removeprefix("file://")).parent
        elsewhere = tmp_path / f"{place.name} elsewhere"
        if start == 640 and not elsewhere.exists():
            place.rename(elsewhere)
        return digests

    monkeypatch.setattr(arrays, "LATE", (0.0,))
    monkeypatch.setattr(arrays, "write_chunks", write_and_move)
    removed = "or the file 'lock' in it, was removed while this job was writing there"
    with pytest.raises(LockLostError, match=f"new.zarr, {removed}"):
        fit(data, tmp_path / "new.zarr", DPMeans(16.0, random_state=0), block_rows=64, threads=1)
    with pytest.raises(LockLostError, match=f"out.zarr, {removed}"):
        predict(run, data, tmp_path / "out.zarr", block_rows=64, threads=1)


@pytest.mark.parametrize("remote", [False, True])
def test_a_chunk_that_is_seen_late_is_there(
    remote: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Location.at("memory://late/rows" if remote else tmp_path / "rows")
    array = zarr.create_array(place.store(), data=np.ones((40, 2)), chunks=(4, 2))
    assert arrays.missing_chunks(array, place) == []
    chunk, pauses = (place / "c/3/0").read(), []
    place.remove(["c/3/0"])

    def sleep(pause: float) -> None:
        pauses.append(pause)
        if len(pauses) == 2:
            (place / "c/3/0").write(chunk)

    monkeypatch.setattr(arrays, "sleep", sleep)
    assert arrays.missing_chunks(array, place) == []
    assert pauses == list(arrays.LATE[:2])
    monkeypatch.setattr(arrays, "sleep", pauses.append)
    place.remove(["c/0/0", "c/9/0"])
    assert arrays.missing_chunks(array, place) == ["c/0/0", "c/9/0"]


def test_a_chunk_is_there_though_a_listing_is_old_or_nobody_may_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Location.at(tmp_path / "rows")
    array = zarr.create_array(place.store(), data=np.ones((40, 2)), chunks=(4, 2))
    monkeypatch.setattr(Location, "entries", lambda _: iter(()))  # of a network file system
    assert arrays.missing_chunks(array, place) == []

    def denied(path: str) -> None:
        raise PermissionError(path)

    monkeypatch.setattr(arrays.os, "stat", denied)
    with pytest.raises(PermissionError):
        arrays.missing_chunks(array, place)


def test_synthetic_stores_are_the_same_for_one_seed(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_synthetic(Synthetic("outliers", 100_000, 2, 5, seed=3), tmp_path / name)
    first, second = (xarray.open_zarr(tmp_path / name).load() for name in ("a", "b"))
    assert first.identical(second)
    assert first.rows.shape == (100_000, 2)
    assert set(np.unique(first.truth)) == {-1, 0, 1, 2, 3, 4}


def test_force_never_removes_what_is_not_ours(tmp_path: Path, data: str, run: Path) -> None:
    (run / "notes.txt").write_text("precious")
    with pytest.raises(
        InputError, match=r"also holds notes.txt, not written by this package: move that away first"
    ):
        fit(data, run, DPMeans(16.0), force=True)
    assert load(run).penalty == 16.0
    (tmp_path / "project").mkdir()
    (tmp_path / "project/thesis.txt").write_text("precious")
    fit(data, tmp_path / "project/steps", DPMeans(16.0))
    with pytest.raises(InputError, match="not an output of this package, so it is never removed"):
        fit(data, tmp_path / "project", DPMeans(16.0), force=True)
    assert (tmp_path / "project/thesis.txt").read_text() == "precious"


@pytest.mark.parametrize(
    "foreign",
    ["labels/notes.txt", "steps/thesis.txt", "steps/000001/c/0", "digests/data.csv", "labels/c/x"],
)
@pytest.mark.parametrize("done", [True, False])
def test_force_removes_nothing_where_a_foreign_file_lies_deep_within(
    tmp_path: Path, data: str, foreign: str, done: bool
) -> None:
    run = tmp_path / "run.zarr"
    if done:
        fit(data, run, DPMeans(16.0, tol=0.1))
    else:
        with pytest.raises(InterruptError):
            fit(data, run, DPMeans(16.0), on_step=interrupted_after(1))
    (run / foreign).parent.mkdir(parents=True, exist_ok=True)
    (run / foreign).write_text("precious")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(
        InputError,
        match=rf"also holds {foreign}, not written by this package: move that away first",
    ):
        fit(data, run, DPMeans(16.0), force=True)
    assert sorted(tmp_path.rglob("*")) == before
    (run / foreign).unlink()
    fit(data, run, DPMeans(16.0, tol=0.1), force=True)


def test_force_follows_no_link_out_of_an_output(tmp_path: Path, data: str, run: Path) -> None:
    precious = tmp_path / "precious"
    shutil.copytree(run / "labels", precious)
    shutil.rmtree(run / "labels")
    (run / "labels").symlink_to(precious)
    with pytest.raises(
        InputError, match="also holds labels, not written by this package: move that away first"
    ):
        fit(data, run, DPMeans(16.0), force=True)
    (run / "labels").unlink()
    (run / "labels").mkdir()
    (run / "labels/zarr.json").symlink_to(precious / "zarr.json")
    before = sorted(precious.rglob("*"))
    fit(data, run, DPMeans(16.0), force=True)  # a link to a file goes, the file does not
    assert sorted(precious.rglob("*")) == before
    (tmp_path / "link").symlink_to(run)
    assert fit(data, tmp_path / "link", DPMeans(9.0), force=True).penalty == 9.0
    assert (tmp_path / "link").is_symlink()


def test_a_run_without_a_committed_step_is_begun_anew_unasked_and_one_with_some_is_not(
    tmp_path: Path, data: str, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.zarr"
    with monkeypatch.context() as patch:
        patch.setattr(StepLog, "commit", lambda *_, **__: (_ for _ in ()).throw(InterruptError))
        with pytest.raises(InterruptError):
            fit(data, other, DPMeans(1.0))
    assert RunStore.at(other).begun()
    with pytest.raises(InterruptError):
        fit(data, other, DPMeans(16.0, random_state=0), on_step=interrupted_after(1))
    with pytest.raises(
        InputError, match="holds a run: resume=True goes on with it, force=True removes it first"
    ):
        fit(data, other, DPMeans(16.0, random_state=0))
    fit(data, other, DPMeans(16.0, random_state=0), resume=True)
    np.testing.assert_array_equal(load(other).labels_.compute(), load(run).labels_.compute())


def test_resume_does_not_replace_a_result_whose_steps_are_lost(data: str, run: Path) -> None:
    (run / "steps/zarr.json").unlink()
    with pytest.raises(CorruptStoreError, match="a run whose steps are missing"):
        fit(data, run, DPMeans(9.0), resume=True)
    assert load(run).penalty == 16.0


@pytest.mark.parametrize("harm", ["flip", "cut"])
def test_damaged_labels_are_an_error_that_names_them(run: Path, harm: str) -> None:
    path = chunk_files(run / "labels")[0]
    whole = path.read_bytes()
    path.write_bytes(
        whole[:40] if harm == "cut" else whole[:40] + bytes([whole[40] ^ 1]) + whole[41:]
    )
    with pytest.raises(CorruptStoreError, match="labels: a chunk does not match its checksum"):
        load(run).labels_.compute()


class StopError(Exception):
    """Ends a fit after a step."""


def stop(number: int, *_: object) -> None:
    if number == 2:
        raise StopError


def test_a_run_does_not_go_on_with_rows_of_the_same_moments_but_another_objective(
    tmp_path: Path,
) -> None:
    half = np.random.default_rng(0).integers(0, 20, (1000, 2)).astype(np.float64)
    rows = np.concatenate([half, -half])  # sums and means of which are exact in any order
    made = zarr.create_array(tmp_path / "rows.zarr", data=rows, chunks=(500, 2))
    with pytest.raises(StopError):
        fit(
            tmp_path / "rows.zarr",
            tmp_path / "run.zarr",
            DPMeans(30.0, random_state=0),
            on_step=stop,
        )
    made[:, 1] = np.sort(rows[:, 1])
    with pytest.raises(
        InputError,
        match=r"the last step of .*run\.zarr has the objective .*: the input has changed",
    ):
        fit(tmp_path / "rows.zarr", tmp_path / "run.zarr", DPMeans(30.0), resume=True)
    made[:] = rows
    found = fit(tmp_path / "rows.zarr", tmp_path / "run.zarr", DPMeans(30.0), resume=True)
    assert (
        found.objective_
        == fit(tmp_path / "rows.zarr", tmp_path / "whole.zarr", DPMeans(30.0)).objective_
    )


FOREIGN = {
    "penalty": [("parameters", "penalty"), ["x", None, -1.0, [4], True, 1e999]],
    "metric": [("parameters", "metric"), ["manhattan", None, ["cosine"]]],
    "tol": [("parameters", "tol"), ["1e-3", None]],
    "max_iter": [("parameters", "max_iter"), [3.5, "300"]],
    "shape": [("input", "shape"), [[10], "ab", None, ["a", "b"], 7]],
    "dtype": [("input", "dtype"), ["O", "nonsense", 3]],
    "columns": [("input", "columns"), [["../x"], 3]],
    "scaled": [("input", "scaled"), ["yes", 1, None]],
    "n_passes": [("n_passes",), ["many", None]],
    "converged": [("converged",), [1, "true"]],
    "checksummed": [("checksummed",), ["no"]],
    "column_names": [("column_names",), ["abc", ["a", "b"], [1, 2, 3], 3]],
    "random_state": [("random_state",), ["0", 0.5]],
    "method": [("method",), [None, 3]],
    "parameters": [("parameters",), [[], None, {}]],
    "input": [("input",), ["rows", {}]],
}


@pytest.mark.parametrize(
    ("where", "value"), [(where, value) for where, values in FOREIGN.values() for value in values]
)
def test_attributes_of_other_types_are_refused_though_they_are_signed(
    finished: Path, tmp_path: Path, where: tuple[str, ...], value: object
) -> None:
    run = tmp_path / "run.zarr"
    shutil.copytree(finished, run)
    file = run / "zarr.json"
    metadata = json.loads(file.read_text())
    at = metadata["attributes"][MARKER]
    for key in where[:-1]:
        at = at[key]
    at[where[-1]] = value
    metadata["attributes"] = sign_attributes(metadata["attributes"])
    file.write_text(json.dumps(metadata))
    with pytest.raises(
        CorruptStoreError,
        match=r"run\.zarr/zarr\.json: the attributes do not describe a run of this package",
    ):
        load(run)


@pytest.mark.parametrize("name", ["cluster_centers", "objective", "cluster_weights"])
def test_an_array_in_the_place_of_another_is_known(run: Path, name: str) -> None:
    shutil.rmtree(run / name)
    shutil.copytree(run / "cluster_inertias", run / name)
    values = np.full_like(zarr.open_array(run / name)[:], 7.0)
    zarr.open_array(run / name, mode="r+")[:] = values  # whole, with good checksums
    with pytest.raises(CorruptStoreError, match=rf"{name} does not hold what was written there"):
        load(run)


def test_labels_of_another_shape_are_known(run: Path) -> None:
    zarr.open_array(run / "labels", mode="r+").resize((2,))
    with pytest.raises(CorruptStoreError, match=r"labels holds int32 of shape \(2,\), not"):
        load(run)


def test_no_message_tells_credentials() -> None:
    with pytest.raises(InputError) as found:
        load("memory://me:secret@host/run.zarr?signature=token")
    assert "memory://***@host/run.zarr?***" in str(found.value)
    assert RunStore.at("s3://key:secret@bucket/run").shown == "s3://***@bucket/run"
    for error in (CorruptStoreError, InputError):
        assert str(error("no https://u:p@h/x?sig=1 there")) == "no https://***@h/x?*** there"


def test_a_store_that_does_not_answer_is_not_taken_for_an_empty_one(run: Path, data: str) -> None:
    target = "memory://silent/run.zarr"
    fs = fsspec.filesystem("memory")
    fs.put(str(run), "/silent/run.zarr", recursive=True)
    assert RunStore.at(target).finished()
    with pytest.MonkeyPatch.context() as patch:
        for question in ("cat_file", "ls"):
            patch.setattr(
                type(fs),
                question,
                lambda *_, **__: (_ for _ in ()).throw(ConnectionError("no answer")),
            )
        for ask in (
            RunStore.at(target).finished,
            RunStore.at(target).begun,
            partial(_is_free, Location.at(target)),
        ):
            with pytest.raises(ConnectionError, match="no answer"):
                ask()
