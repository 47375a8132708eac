"""Sparse counts: a fit of CSR rows is the fit of the same rows made dense, at the cost of their values."""

from types import SimpleNamespace
from unittest import mock

import dask.array as da
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from memory import peak_memory
from scipy.sparse import csc_array, csr_array
from sklearn.metrics import adjusted_rand_score

from dask_dpmeans import DPMeans, HDPMeans, InputError, fit, load, predict
from dask_dpmeans.kernels.block import Scratch, dense
from dask_dpmeans.kernels.encoding import Encoding
from dask_dpmeans.methods.dpmeans import outlier_share, summary
from dask_dpmeans.methods.dpmeans.outlier_share import costs_of
from dask_dpmeans.sources import layout

encode_rows = Encoding.__call__
PRICES = {"poisson": 12.0, "multinomial": 0.8, "bernoulli": 6.0}


def drawn(name, seed, n=120, d=8, density=0.3):
    """Counts of three profiles; some rows and columns are 0, as far as the divergence takes them."""
    rng = np.random.default_rng(seed)
    profiles = rng.gamma(0.5, 8.0, (3, d))
    rows = rng.poisson(profiles[rng.integers(3, size=n)]) * (rng.random((n, d)) < density)
    rows = rows.astype(rng.choice([np.float32, np.float64, np.int64]))
    if name == "bernoulli":
        rows = np.minimum(rows, 1)
    rows[:, rng.integers(d)] = 0
    if name == "multinomial":
        rows[rows.sum(axis=1) == 0, 0] = 2
    return rows


def with_explicit_zeros(rows, seed=0):
    """The same rows as CSR, with some of their zeros stored."""
    rng = np.random.default_rng(seed)
    stored = (rows != 0) | (rng.random(rows.shape) < 0.1)
    numbers, columns = np.nonzero(stored)
    ends = np.concatenate([[0], np.cumsum(stored.sum(axis=1))])
    return csr_array((rows[numbers, columns], columns, ends), shape=rows.shape)


cases = st.tuples(
    st.sampled_from(sorted(PRICES)), st.integers(0, 2**16), st.sampled_from([0.05, 0.3, 1.0])
)


@settings(deadline=None, max_examples=40)
@given(cases, st.booleans())
def test_a_fit_of_csr_rows_is_the_fit_of_the_dense_rows(case, weighted):
    name, seed, density = case
    rows = drawn(name, seed, density=density)
    weights = np.random.default_rng(seed).integers(1, 4, len(rows)) if weighted else None
    dense = DPMeans(PRICES[name], divergence=name).fit(rows, sample_weight=weights)
    stored = with_explicit_zeros(rows, seed)
    sparse = DPMeans(PRICES[name], divergence=name).fit(stored, sample_weight=weights)
    assert sparse.features_.takes_csr
    assert not dense.features_.takes_csr
    np.testing.assert_array_equal(sparse.labels_, dense.labels_)
    for field in ("objective_", "inertia_", "cluster_centers_", "cluster_inertias_"):
        one, other = getattr(sparse, field), getattr(dense, field)
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * dense.objective_)
    np.testing.assert_array_equal(sparse.predict(stored), sparse.labels_)
    np.testing.assert_array_equal(sparse.predict(rows), sparse.labels_)
    np.testing.assert_array_equal(dense.predict(stored), sparse.labels_)
    wanted = dense.transform(rows)
    for given_rows in (rows, stored):
        np.testing.assert_allclose(sparse.transform(given_rows), wanted, rtol=1e-9, atol=1e-9)
        assert sparse.score(given_rows, sample_weight=weights) == pytest.approx(-dense.inertia_)


def stored_csr(path, rows, chunk):
    """A group of CSR rows in the layout of anndata."""
    found = csr_array(rows)
    attributes = {"encoding-type": "csr_matrix", "encoding-version": "0.1.0"}
    group = zarr.create_group(path, attributes=attributes | {"shape": list(rows.shape)})
    for name in ("data", "indices", "indptr"):
        values = getattr(found, name)
        made = group.create_array(
            name,
            shape=values.shape,
            chunks=(chunk,),
            dtype=values.dtype,
            config={"write_empty_chunks": True},
        )
        made[:] = values
    return path


@pytest.mark.parametrize("name", sorted(PRICES))
@pytest.mark.parametrize(("chunk", "search"), [(7, False), (50, False), (50, True)])
def test_any_chunks_and_threads_give_the_same_bytes(tmp_path, name, chunk, search):
    rows = drawn(name, chunk, n=60 if search else 120).astype(np.float64)
    more = {"search": True, "effort": "quick"} if search else {}
    method = DPMeans(PRICES[name] * (4 if search else 1), divergence=name, random_state=0, **more)
    lazy = da.from_array(rows, chunks=(chunk, -1)).map_blocks(csr_array, meta=csr_array((0, 8)))
    path = stored_csr(tmp_path / "rows.zarr", rows, chunk)
    found = []
    for number, (given_rows, share, threads) in enumerate(
        ((csr_array(rows), 0.4, 1), (lazy, 0.4, 2), (path, 0.4, 2), (path, 0.0, 2))
    ):
        with mock.patch.object(layout, "RESIDENT_SHARE", share):
            fit(given_rows, tmp_path / str(number), method, threads=threads, block_rows=16)
        model = load(tmp_path / str(number))
        assert model.features_.takes_csr
        centers, labels = model.cluster_centers_, np.asarray(model.labels_)
        found.append((centers.tobytes(), labels.tobytes(), model.objective_))
    assert len(set(found)) == 1


searches = st.sampled_from([{}, {"outlier_penalty": 1.5}, {"discount": 0.2}])


@settings(deadline=None, max_examples=10)
@given(cases, st.booleans(), searches)
def test_a_search_of_csr_rows_is_the_search_of_the_same_code_as_dense_rows(case, weighted, more):
    name, seed, density = case
    rows = csr_array(drawn(name, seed, n=50, density=density))
    weights = np.random.default_rng(seed).integers(1, 4, rows.shape[0]) if weighted else None
    price = 4 * PRICES[name]
    more = {key: share * price for key, share in more.items()}
    settings = {"divergence": name, "search": True, "effort": "quick", "random_state": 0}
    model = DPMeans(price, **settings, **more)
    found = []
    for encode in (Encoding.__call__, lambda *given: dense(encode_rows(*given))):
        with mock.patch.object(Encoding, "__call__", encode):
            model.fit(rows, sample_weight=weights)
        figures = model.cluster_averages_, model.labels_, model.cluster_inertias_
        found.append((*(each.tobytes() for each in figures), model.objective_, model.n_iter_))
    assert model.features_.takes_csr
    assert found[0] == found[1]


@pytest.mark.parametrize("name", sorted(PRICES))
def test_a_search_of_csr_rows_finds_clear_clusters_as_the_search_of_dense_rows_does(name):
    rows = drawn(name, 6, n=200, d=20, density=0.9)
    settings = {"divergence": name, "search": True, "effort": "quick", "random_state": 0}
    one = DPMeans(20 * PRICES[name], **settings).fit(csr_array(rows))
    other = DPMeans(20 * PRICES[name], **settings).fit(rows)
    assert one.n_clusters_ > 1
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-9)
    assert adjusted_rand_score(one.labels_, other.labels_) == 1.0
    np.testing.assert_array_equal(one.predict(rows), one.labels_)


def test_a_run_keeps_what_zeros_become(tmp_path):
    rows = drawn("poisson", 1).astype(np.float64)
    stored = csr_array(rows)
    fit(stored, tmp_path / "run", DPMeans(12.0, divergence="poisson"))
    model, same = load(tmp_path / "run"), DPMeans(12.0, divergence="poisson").fit(stored)
    assert model.features_ == same.features_
    assert model.features_.takes_csr
    for given_rows in (rows, stored, da.from_array(rows, chunks=(50, -1))):
        np.testing.assert_array_equal(np.asarray(model.predict(given_rows)), same.labels_)
    lazy = da.from_array(rows, chunks=(50, -1)).map_blocks(csr_array, meta=csr_array((0, 8)))
    np.testing.assert_array_equal(np.asarray(model.predict(lazy)), same.labels_)
    predict(tmp_path / "run", stored, tmp_path / "labels")
    found = zarr.open_group(tmp_path / "labels", mode="r")
    np.testing.assert_array_equal(found["label"][:], same.labels_)
    squared = found["squared_distance"][:]
    assert squared.sum() == pytest.approx(same.inertia_, rel=1e-9)


def test_a_step_that_is_resumed_goes_on_from_sparse_centers(tmp_path):
    rows = csr_array(drawn("poisson", 2, n=400))
    method = DPMeans(12.0, divergence="poisson", tol=0.0, random_state=0)
    fit(rows, tmp_path / "whole", method)
    assert len(load(tmp_path / "whole").history_) > 2
    with pytest.warns(UserWarning, match="converge"):
        fit(rows, tmp_path / "run", method.set_params(max_iter=2))
    fit(rows, tmp_path / "run", method.set_params(max_iter=300), resume=True)
    one, other = load(tmp_path / "run"), load(tmp_path / "whole")
    assert one.cluster_centers_.tobytes() == other.cluster_centers_.tobytes()
    assert one.objective_ == other.objective_


@pytest.mark.parametrize("search", [False, True])
def test_a_run_is_not_resumed_with_the_encoding_of_other_rows(tmp_path, search):
    """Nor is a run of an earlier version, whose CSR rows were encoded as dense rows are."""
    rows = drawn("poisson", 2).astype(np.float64)
    method = DPMeans(12.0, divergence="poisson", search=search, random_state=0, max_iter=1)
    runs = {"sparse": csr_array(rows), "earlier": csr_array(rows), "other": rows}
    for name, given_rows in runs.items():
        with (
            mock.patch.object(DPMeans, "_on_csr", name == "sparse"),
            pytest.warns(UserWarning, match="converge"),
        ):
            fit(given_rows, tmp_path / name, method)
    for name, given_rows, told in (
        ("sparse", rows, "sparse True, not None"),
        ("earlier", csr_array(rows), "sparse None, not True"),
        ("other", csr_array(rows), "sparse None, not True"),
    ):
        with pytest.raises(InputError, match=told):
            fit(given_rows, tmp_path / name, method.set_params(max_iter=2), resume=True)


def test_columns_of_csr_rows_are_chosen_and_csc_rows_are_taken(tmp_path):
    rows = drawn("poisson", 3).astype(np.float64)
    fit(rows[:, [5, 0, 2]], tmp_path / "dense", DPMeans(9.0, divergence="poisson"))
    fit(csr_array(rows), tmp_path / "csr", DPMeans(9.0, divergence="poisson"), columns=[5, 0, 2])
    one, other = load(tmp_path / "csr"), load(tmp_path / "dense")
    assert one.features_.takes_csr
    np.testing.assert_array_equal(np.asarray(one.labels_), np.asarray(other.labels_))
    whole = DPMeans(9.0, divergence="poisson").fit(rows)
    csc = DPMeans(9.0, divergence="poisson").fit(csc_array(rows))
    np.testing.assert_array_equal(csc.labels_, whole.labels_)


@pytest.mark.parametrize("name", ["poisson", "multinomial", "bernoulli"])
def test_a_number_without_a_cost_is_named_as_in_dense_rows(name):
    rows = drawn(name, 4).astype(np.float64)
    wrong = rows.copy()
    wrong[33, 2] = -1.0
    if name == "multinomial":
        wrong[20] = 0
    model = DPMeans(9.0, divergence=name)
    with pytest.raises(InputError) as dense:
        model.fit(wrong)
    with pytest.raises(InputError) as sparse:
        model.fit(csr_array(wrong))
    assert str(dense.value) == str(sparse.value)
    fitted = DPMeans(9.0, divergence=name).fit(csr_array(rows))
    with pytest.raises(InputError, match=r"row (20|33)"):
        fitted.predict(csr_array(wrong))


@pytest.mark.parametrize(
    "model",
    [
        DPMeans(12.0, divergence="poisson", balance_columns=True),
        DPMeans(12.0, divergence="poisson", missing="observed"),
        DPMeans(12.0, divergence={0: "poisson"}),
    ],
)
def test_other_fits_make_blocks_dense_and_keep_their_bytes(model):
    rows = drawn("poisson", 5, n=60).astype(np.float64)
    one = model.fit(csr_array(rows))
    assert not one.features_.takes_csr
    centers, objective = one.cluster_centers_.tobytes(), one.objective_
    other = model.fit(rows)
    assert (centers, objective) == (other.cluster_centers_.tobytes(), other.objective_)


def wide(n=4000, d=2000):
    rng = np.random.default_rng(0)
    indices = np.sort(rng.integers(d, size=(n, 10)), axis=1).ravel()
    data = 1.0 + rng.poisson(2.0, n * 10)
    return csr_array((data, indices, np.arange(0, 10 * n + 1, 10)), shape=(n, d))


def encode(rows, encoding):
    encoding(rows, Scratch())


def search_counts(rows):
    return DPMeans(1e9, divergence="poisson", search=True, random_state=0).fit(rows)


def predict_lazily(model, rows):
    lazy = da.from_array(np.arange(rows.shape[0])[:, np.newaxis], chunks=(300, 1)).map_blocks(
        lambda numbers: rows[numbers[:, 0]], meta=csr_array((0, 1)), chunks=(300, rows.shape[1])
    )
    model.predict(lazy).compute(scheduler="synchronous")


@pytest.mark.parametrize("name", PRICES)
def test_a_share_of_outliers_is_found_on_csr_rows_as_on_dense_ones(name, monkeypatch):
    rows, kinds = drawn(name, 3, n=60), []

    def note(drawn_rows, centers):
        kinds.append(type(drawn_rows.rows))
        return costs_of(drawn_rows, centers)

    monkeypatch.setattr(outlier_share, "costs_of", note)
    shared = {"divergence": name, "outlier_share": 0.1, "effort": "quick", "random_state": 0}
    found, wanted = (
        DPMeans(5 * PRICES[name], search=True, **shared).fit(each)
        for each in (with_explicit_zeros(rows), rows)
    )
    assert set(kinds) == {csr_array, np.ndarray}
    assert wanted.outlier_weight_ > 0
    assert found.outlier_penalty_ == pytest.approx(wanted.outlier_penalty_, rel=1e-6)
    assert found.objective_ == pytest.approx(wanted.objective_, rel=1e-6)


@pytest.mark.parametrize("counts", [True, False])
def test_a_choice_that_does_not_fit_in_memory_is_refused(monkeypatch, counts):
    rows = csr_array(drawn("poisson", 0, n=40))
    model = DPMeans(divergence="poisson" if counts else "squared", random_state=0)
    monkeypatch.setattr(summary, "NUMBER_COPIES", 10**12)
    with pytest.raises(InputError, match=r"'auto' compares .* GiB that are free: give the penalty"):
        model.fit(rows)
    shared = HDPMeans(divergence="poisson")
    with pytest.raises(InputError, match=r"40 dense rows of \d+ columns, which takes about"):
        shared.fit(rows, groups=np.arange(40) % 2)


def test_the_memory_of_a_choice_is_asked_of_wide_rows_alone():
    sums = SimpleNamespace(sums=np.zeros(80_000))
    source = SimpleNamespace(plan=SimpleNamespace(n_rows=200_000), summary=sums, room=2**34)
    with pytest.raises(InputError, match="6,144 dense rows of 80,000 columns"):
        summary.check_room(source)
    source.summary.sums = source.summary.sums[:1_000]
    source.room = 0
    summary.check_room(source)


def test_no_block_of_counts_is_made_dense():
    """The first pass, a search and lazy predictions need less memory than the smallest dense block."""
    rows = wide(n=300, d=6_000)
    rows.sum_duplicates()
    block = 256 * rows.shape[1] * 8
    few = rows[:20, :200]
    peak_memory(predict_lazily, search_counts(few), few)  # loads and compiles
    assert peak_memory(search_counts, rows) < block / 2
    assert peak_memory(predict_lazily, search_counts(rows), rows) < block / 4


def test_encoded_csr_rows_take_the_memory_of_their_values():
    rows = wide()
    rows.sum_duplicates()
    model = DPMeans(1e9, divergence="poisson").fit(rows)
    assert isinstance(model.features_, Encoding)
    assert peak_memory(encode, rows, model.features_) < 200 * (rows.nnz + sum(rows.shape))


@pytest.mark.filterwarnings("ignore:.*clusters? stay the best:UserWarning")
@pytest.mark.filterwarnings("ignore:At the chosen penalty the fit has:UserWarning")
@pytest.mark.parametrize("name", ["poisson", "multinomial", "bernoulli"])
def test_a_coreset_of_many_sparse_counts_chooses_as_one_of_the_dense_rows(name, monkeypatch):
    monkeypatch.setattr(summary, "SUMMARY_ROWS", 100)
    monkeypatch.setattr(summary, "SUMMARY_NUMBERS", 1)
    rows = drawn(name, 4, n=400, density=0.8)
    wanted = DPMeans(divergence=name, random_state=0).fit(rows)
    found = DPMeans(divergence=name, random_state=0).fit(with_explicit_zeros(rows))
    assert found.choice_.rows_used < 250
    assert found.choice_.n_clusters == wanted.choice_.n_clusters
    assert found.penalty_ == pytest.approx(wanted.penalty_, rel=1e-3)
    np.testing.assert_array_equal(found.labels_, wanted.labels_)
