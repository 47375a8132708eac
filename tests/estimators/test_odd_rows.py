"""Rows of odd kinds: the same bytes as plain rows, or an error whose way out works as it stands."""

import re

import dask.array
import dask.bag
import numpy as np
import pandas as pd
import pytest
import xarray
import zarr

from dask_dpmeans import DPMeans, HDPMeans, InputError
from dask_dpmeans.sources import as_source

CUBE = np.random.default_rng(0).integers(0, 9, (6, 5, 4)) / 2.0
FORMS = {"numpy": np.asarray, "dask": dask.array.from_array, "zarr": zarr.array}
NAMES = {"dask": dask, "np": np, "xarray": xarray}


@pytest.mark.parametrize("form", FORMS)
def test_an_array_of_three_dimensions_says_how_it_becomes_rows(form):
    X = FORMS[form](CUBE)
    with pytest.raises(InputError, match="Found array with dim 3, of shape") as refused:
        DPMeans(9.0).fit(X)
    last, first = re.findall(r"pass (\S+\.reshape\(\S+ \S+\))", str(refused.value))
    call = re.search(r"(fit\(xarray.*?\)), features", str(refused.value))[0]
    names = NAMES | {"X": X, "fit": DPMeans(9.0).fit}
    expected = DPMeans(9.0).fit(CUBE.reshape(-1, 4)).labels_
    np.testing.assert_array_equal(DPMeans(9.0).fit(eval(last, names)).labels_, expected)
    on_grid = eval(f"{call}='d2')", names)
    np.testing.assert_array_equal(on_grid.labels_, expected.reshape(6, 5))
    of_samples = DPMeans(9.0).fit(eval(first, names))
    np.testing.assert_array_equal(of_samples.labels_, DPMeans(9.0).fit(CUBE.reshape(6, -1)).labels_)
    model = DPMeans(9.0).fit(CUBE[0])
    with pytest.raises(InputError, match="Found array with dim 3, of shape"):
        model.predict(X)


@pytest.mark.parametrize("form", ["dask", "zarr"])
def test_one_dimension_says_how_it_becomes_rows(form):
    X = FORMS[form](CUBE[0, 0])
    with pytest.raises(InputError, match=r"of shape \(4,\), while DPMeans takes rows") as refused:
        DPMeans(9.0).fit(X)
    for way in re.findall(r"(\S+\.reshape\(.*?\))", str(refused.value)):
        DPMeans(9.0).fit(eval(way, NAMES | {"X": X}))


def test_rows_of_different_lengths_are_named() -> None:
    ragged = [[1.0, 2.0], (3.0, 4.0), [5.0]]
    with pytest.raises(
        InputError, match=r"^X has rows of different lengths: row 0 has 2 values, row 2 has 1: "
    ):
        DPMeans(9.0).fit(ragged)
    assert DPMeans(9.0).fit(ragged[:2]).n_clusters_ == 1


CONTAINERS = {
    "dict": ({"a": [1.0, 2.0], "b": [3.0, 4.0]}, "pandas.DataFrame(X)"),
    "list of dicts": ([{"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 9.0}], "pandas.DataFrame(X)"),
    "tuple_iterator": (iter(((1.0, 2.0), (9.0, 9.0))), "list(X)"),
    "set": ({(1.0, 2.0), (9.0, 9.0)}, None),
    "Delayed": (
        dask.delayed(np.ones)((3, 2)),
        "dask.array.from_delayed(X, shape=(n, d), dtype=float)",
    ),
    "list of Delayed objects": (
        [dask.delayed(np.ones)((3, 2)), dask.delayed(np.zeros)((4, 2))],
        "dask.array.concatenate([dask.array.from_delayed(each, shape=(n, d), dtype=float) for each in X])",
    ),
    "tuple of Delayed objects": (
        (dask.delayed(np.ones)((3, 2)), dask.delayed(np.zeros)((4, 2))),
        "dask.array.concatenate([dask.array.from_delayed(each, shape=(n, d), dtype=float) for each in X])",
    ),
    "Bag": (dask.bag.from_sequence([(1.0, 2.0), (9.0, 9.0)]), "numpy.array(X.compute())"),
}


@pytest.mark.parametrize("kind", CONTAINERS)
def test_a_collection_that_is_no_array_says_how_it_becomes_one(kind):
    X, way = CONTAINERS[kind]
    with pytest.raises(InputError, match=f"X is a {kind}, no array: pass .*") as refused:
        DPMeans(9.0).fit(X)
    with pytest.raises(InputError, match=f"data is a {kind}, no array: pass .*"):
        as_source(X)
    if way is not None:
        assert way in str(refused.value)
        with dask.config.set(scheduler="synchronous"):
            found = eval(way, NAMES | {"X": X, "n": np.nan, "d": 2, "pandas": pd, "numpy": np})
            assert DPMeans(9.0).fit(found).n_clusters_ >= 1


def test_lists_of_delayed_data_sets_and_delayed_weights_say_how_they_become_arrays():
    sets = [dask.delayed(np.ones)((3, 2)), dask.delayed(np.zeros)((4, 2))]
    given = NAMES | {"X": sets, "n": np.nan, "d": 2, "sample_weight": dask.delayed(np.ones)(4)}
    with pytest.raises(InputError, match="X is a list of Delayed objects, no array") as told:
        HDPMeans(9.0, 9.0).fit(sets)
    way = str(told.value).partition("pass ")[2].partition(", with numpy.nan")[0]
    assert HDPMeans(9.0, 9.0).fit(eval(way, given)).local_clusters_.shape == (2, 1)
    with pytest.raises(InputError, match="sample_weight is a Delayed, no array") as told:
        DPMeans(9.0).fit(np.ones((4, 2)), sample_weight=given["sample_weight"])
    way = str(told.value).partition("pass ")[2].partition(", with numpy.nan")[0]
    assert eval(way, given | {"n": 4}).compute().tolist() == [1.0] * 4


def test_lists_of_lists_with_delayed_objects_say_how_they_become_one_array_or_several():
    array = np.random.default_rng(0).normal(size=(4, 2))
    ones, number = dask.delayed(np.ones)((3, 2)), dask.delayed(float)(5)
    blocks = [[dask.delayed(array[:2]), dask.delayed(array[:2])], [dask.delayed(array[2:])] * 2]
    for model, X, shape, expected in (
        (DPMeans(9.0), blocks, 2, np.hstack([array, array])),
        (HDPMeans(9.0, 9.0), [(ones,), (ones,)], 3, np.ones((2, 3, 2))),
        (DPMeans(9.0), ([1.0, number], [2.0, 3.0]), 0, [[1.0, 5.0], [2.0, 3.0]]),
    ):
        told = f"X is a {type(X).__name__} of lists with Delayed objects, no array: pass (.*)"
        with pytest.raises(InputError, match=told) as refused:
            model.fit(X)
        way = re.search(told, str(refused.value))[1].partition(", or ")[0]
        found = eval(way, NAMES | {"X": X, "n": shape, "d": 2})
        np.testing.assert_array_equal(dask.compute(found)[0], expected)
        assert model.fit(found).n_clusters_ >= 1


@pytest.mark.parametrize("X", [[], ()])
def test_no_rows_at_all_are_named(X):
    told = f"is an empty {type(X).__name__}: give at least one row"
    for model in (DPMeans(9.0), HDPMeans(9.0, 9.0)):
        with pytest.raises(InputError, match=f"^X {told}$"):
            model.fit(X)
    with pytest.raises(InputError, match=f"^data {told}$"):
        as_source(X)
    with pytest.raises(InputError, match=f"^X {told}$"):
        DPMeans(9.0).fit(np.ones((4, 2))).predict(X)


def test_data_sets_and_groups_that_are_delayed_stay_apart_and_whole_numbers():
    X, groups = np.ones((4, 2)), dask.delayed(np.arange)(4)
    model = HDPMeans(9.0, 9.0).fit([X, X])
    way = r"pass \[dask.array.from_delayed\(each"
    with pytest.raises(InputError, match=f"X is a list of Delayed objects, no array: {way}"):
        model.predict([dask.delayed(X), dask.delayed(X)])
    with pytest.raises(InputError, match="groups is a Delayed, no array") as told:
        model.fit(X, groups=groups)
    way = str(told.value).partition("pass ")[2].partition(", with numpy.nan")[0]
    found = eval(way, NAMES | {"groups": groups, "n": 4})
    assert model.fit(X, groups=found).local_clusters_.shape == (4, 1)


@pytest.mark.parametrize("chunks", [(4, 4), (4, 2), (8, 2)])
def test_what_dask_makes_of_the_chunks_of_an_array_is_refused_for_the_array(chunks):
    given = dask.array.ones((8, 4), chunks=chunks)
    with pytest.raises(InputError, match="array of Delayed objects, as to_delayed of Dask makes"):
        DPMeans(9.0).fit(given.to_delayed())
    assert DPMeans(9.0).fit(given).n_clusters_ == 1


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_list_with_a_delayed_object_among_arrays_says_so(kind):
    X = kind([np.ones((4, 2)), dask.delayed(np.ones)((3, 2))])
    told = "X has Delayed objects among others: make an array of each of these objects first, as (.*) does, with"
    for model, ends in ((DPMeans(9.0), True), (HDPMeans(9.0, 9.0), False)):
        with pytest.raises(InputError, match=told) as refused:
            model.fit(X)
        way = re.search(told, str(refused.value))[1]
        X_ = [X[0], eval(way, NAMES | {"each": X[1], "n": 3, "d": 2})]
        then = "; then pass dask.array.concatenate(X)"
        assert str(refused.value).endswith(then) == ends
        rows = eval(then.partition("pass ")[2], NAMES | {"X": X_}) if ends else X_
        assert model.fit(rows).n_clusters_ == 1
    with pytest.raises(InputError, match=r"pass dask.array.concatenate\(\[dask.array.from_delayed"):
        HDPMeans(9.0, 9.0).fit([X[1], X[1]], groups=np.zeros(6, int))  # the groups tell them apart
    with pytest.raises(InputError, match=r"X is a dict, no array: pass list\(X.values\(\)\)"):
        HDPMeans(9.0, 9.0).fit(dict(enumerate(X)))


def test_a_dict_of_data_sets_goes_to_the_method_of_several_data_sets():
    X = {"a": np.ones((4, 2)), "b": pd.DataFrame({"x": [9.0, 9.0], "y": [9.0, 9.0]}).to_numpy()}
    way = r"X is a dict, no array: pass list\(X.values\(\)\) to HDPMeans"
    for model in (DPMeans(9.0), HDPMeans(9.0, 9.0)):
        with pytest.raises(InputError, match=way):
            model.fit(X)
    assert HDPMeans(9.0, 9.0).fit(list(X.values())).n_clusters_ == 2


DATES = np.array([["2020-01-01"], ["2020-01-03"], ["2021-01-01"]], "M8[s]")


@pytest.mark.parametrize("X", [DATES, DATES - DATES[0, 0]], ids=["dates", "durations"])
def test_dates_say_how_they_become_days(X):
    with pytest.raises(
        InputError, match=r"X has dtype (datetime|timedelta)64.*: count days"
    ) as told:
        DPMeans(9.0).fit(X)
    way = str(told.value).rpartition(", as ")[2].removesuffix(" does")
    assert DPMeans(9.0).fit(eval(way, {"X": X, "numpy": np})).labels_.tolist() == [0, 0, 1]


def test_text_among_objects_is_named_with_its_place_and_numbers_as_text_are_read():
    X = np.array([[1.0, "2"], [9.0, "Berlin"]], object)
    with pytest.raises(InputError, match="X holds the text 'Berlin' at row 1, column 1: encode"):
        DPMeans(9.0).fit(X)
    X[1, 1] = "3.5"
    assert (
        DPMeans(9.0).fit(X).labels_.tolist() == DPMeans(9.0).fit(X.astype(float)).labels_.tolist()
    )
    with pytest.raises(InputError, match=r"it holds text; .* convert it with X.astype\(float\)"):
        DPMeans(9.0).fit(X.astype(str))


def test_numbers_as_text_in_a_table_say_how_they_are_converted():
    frame = pd.DataFrame({"a": ["1", "2"], "b": ["1.5", "9"]})
    with pytest.raises(InputError, match=r"if text spells numbers, convert it, as X.astype\("):
        DPMeans(9.0).fit(frame)
    DPMeans(9.0).fit(frame.astype(dict.fromkeys("ab", float)))


def test_a_masked_array_without_masked_entries_is_read_as_it_is():
    X = CUBE[0]
    expected = DPMeans(9.0).fit(X)
    for masked in (np.ma.array(X), np.ma.array(X, mask=np.zeros(X.shape, bool))):
        model = DPMeans(9.0).fit(masked, sample_weight=np.ma.ones(5))
        assert model.cluster_centers_.tobytes() == expected.cluster_centers_.tobytes()
        assert as_source(masked).summary.weight == 5
    with pytest.raises(InputError, match="is a masked array: fill or drop"):
        DPMeans(9.0).fit(np.ma.masked_less(X, 3.0))
