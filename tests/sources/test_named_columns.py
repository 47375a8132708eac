"""Weights, groups and columns by name: the fit of the arrays that they stand for."""

import json
import re
from pathlib import Path

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import zarr
from click.testing import CliRunner
from sklearn.base import clone

from dask_dpmeans import DPMeans, HDPMeans, InputError, fit, load
from dask_dpmeans.cli import main
from dask_dpmeans.selection.penalty import penalty_for
from dask_dpmeans.sources.named_columns import joined_names

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "age": RNG.normal(size=40) + np.arange(40) % 2 * 9,
        "w": np.arange(40) % 3 / 2.0,
        "income, gross": RNG.normal(size=40),
        "shop": np.arange(40) % 2,
        "town": ["Ulm"] * 40,
    }
)
NAMES = ["age", "income, gross"]
ROWS, WEIGHTS, SHOPS = FRAME[NAMES].to_numpy(), FRAME.w.to_numpy(), FRAME.shop.to_numpy()
EXPECTED = DPMeans(9.0).fit(ROWS, sample_weight=WEIGHTS)
FORMS = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "dask": lambda frame: dd.from_pandas(frame, npartitions=3),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_named_weight_leaves_the_features(form: str) -> None:
    table = FORMS[form](FRAME[[*NAMES, "w"]])
    model = DPMeans(9.0).fit(table, sample_weight="w")
    assert list(model.feature_names_in_) == NAMES
    assert model.cluster_centers_.tobytes() == EXPECTED.cluster_centers_.tobytes()
    assert model.score(table, sample_weight="w") == EXPECTED.score(ROWS, sample_weight=WEIGHTS)
    assert penalty_for(table, 2, sample_weight="w", random_state=0) == penalty_for(
        ROWS, 2, sample_weight=WEIGHTS, random_state=0
    )
    with pytest.raises(InputError, match=r"no column 'v' in data, which has 'age', .*, 'w'$"):
        DPMeans(9.0).fit(table, sample_weight="v")


@pytest.mark.parametrize("form", FORMS)
def test_named_groups_leave_the_features(form: str) -> None:
    model = HDPMeans(9.0, 9.0).fit(FORMS[form](FRAME[[*NAMES, "shop"]]), groups="shop")
    expected = HDPMeans(9.0, 9.0).fit(ROWS, groups=SHOPS)
    assert model.cluster_centers_.tobytes() == expected.cluster_centers_.tobytes()


@pytest.mark.parametrize("form", [*FORMS, "parquet"])
def test_columns_of_a_table_by_name_are_the_only_ones_that_are_read(
    form: str, tmp_path: Path
) -> None:
    FRAME.to_parquet(tmp_path / "t.parquet")
    table = tmp_path / "t.parquet" if form == "parquet" else FORMS[form](FRAME)
    model = fit(table, tmp_path / "run", DPMeans(9.0), columns=NAMES, sample_weight="w")
    assert model.cluster_centers_.tobytes() == EXPECTED.cluster_centers_.tobytes()
    assert list(load(tmp_path / "run").feature_names_in_) == NAMES
    with pytest.raises(InputError, match=r"columns: there is no column 'ages' in data, which has"):
        fit(table, tmp_path / "other", DPMeans(9.0), columns=["ages"])


@pytest.mark.parametrize("how", [{"sample_weight": "w"}, {"groups": "shop"}])
def test_a_name_beside_rows_without_names_is_told_apart_from_a_path(
    how: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [(argument, name)] = how.items()
    model = HDPMeans(4.0, 9.0) if argument == "groups" else DPMeans(9.0)
    told = f"^{argument}: there is no file or folder '{name}', and a name of a column needs rows with names"
    with pytest.raises(InputError, match=told):
        model.fit(ROWS, **how)
    monkeypatch.chdir(tmp_path)
    zarr.create_array(name, data=np.arange(40) % 2)
    by_path = clone(model).fit(ROWS, **how)
    given = clone(model).fit(ROWS, **{argument: np.arange(40) % 2})
    assert by_path.cluster_centers_.tobytes() == given.cluster_centers_.tobytes()


@pytest.mark.parametrize("form", [*FORMS, "parquet", "parquet of named columns"])
def test_numbers_beside_a_named_weight_count_the_columns_as_given(
    form: str, tmp_path: Path
) -> None:
    given = ["w", *reversed(NAMES), "shop"]
    FRAME[given].assign(more=1.0).to_parquet(tmp_path / "t.parquet")
    if form == "parquet":
        table = tmp_path / "t.parquet"
    elif form in FORMS:
        table = FORMS[form](FRAME[given])
    else:
        table = f"{tmp_path / 't.parquet'}#{joined_names(['more', *given[1:]])}"
    for numbers in ([2, 1], np.array([2, 1]), (2, 1)):
        model = fit(
            table, tmp_path / "run", DPMeans(9.0), columns=numbers, sample_weight="w", force=True
        )
        assert model.cluster_centers_.tobytes() == EXPECTED.cluster_centers_.tobytes()
        assert list(load(tmp_path / "run").feature_names_in_) == NAMES
    if form != "parquet of named columns":  # the weights leave the features in any case
        model = fit(table, tmp_path / "all", DPMeans(9.0), columns=[0, 2, 1], sample_weight="w")
        assert model.cluster_centers_.tobytes() == EXPECTED.cluster_centers_.tobytes()
    for wrong in ([9], [-1], [0.5], []):
        with pytest.raises(
            InputError, match=r"columns must name some of the \d columns 0 to \d, got"
        ):
            fit(table, tmp_path / "other", DPMeans(9.0), columns=wrong, sample_weight="w")


@pytest.mark.parametrize("form", [*FORMS, "parquet"])
def test_numbers_are_refused_where_a_column_of_lists_is_several_columns(
    form: str, tmp_path: Path
) -> None:
    lists = FRAME[["w"]].assign(emb=ROWS.tolist(), age=FRAME.age)
    lists.to_parquet(tmp_path / "t.parquet")
    with dask.config.set({"dataframe.convert-string": False}):
        table = tmp_path / "t.parquet" if form == "parquet" else FORMS[form](lists)
    message = r"the columns 'emb' hold lists, so that numbers .* beside 'w' are in doubt: give columns by name"
    with pytest.raises(InputError, match=message):
        fit(table, tmp_path / "run", DPMeans(9.0), columns=[1], sample_weight="w")
    if form == "parquet":  # without the lists
        model = fit(
            f"{table}#w,age", tmp_path / "run", DPMeans(9.0), columns=[1], sample_weight="w"
        )
        assert list(model.feature_names_in_) == ["age"]


@pytest.mark.parametrize("columns", [["age", "id", "age"], [1, 0, 1]])
def test_a_column_that_is_chosen_twice_is_named(columns: list[str | int]) -> None:
    frame = pd.DataFrame({"id": range(6), "age": range(6), "w": range(1, 7)})
    with pytest.raises(
        InputError, match=r"^columns has 'age' more than once: name each column once$"
    ):
        fit(frame, "run", DPMeans(9.0), columns=columns, sample_weight="w")


def test_names_of_columns_of_rows_without_names_are_refused() -> None:
    with pytest.raises(InputError, match="columns are named, 'age', but data has no names"):
        fit(ROWS, "run", DPMeans(9.0), columns=["age"])


def test_the_command_line_takes_names_of_columns_and_patterns_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    for number, part in enumerate(np.array_split(np.arange(40), 11)):
        FRAME.iloc[part].to_parquet(f"data/part.{number}.parquet")
    words = ["--penalty", "9", "--weights", "w", "--columns", 'age,"income, gross"']
    done = CliRunner().invoke(main, ["fit", "data/part.*.parquet", "run", *words])
    assert done.exit_code == 0, done.output
    assert load("run").cluster_centers_.tobytes() == EXPECTED.cluster_centers_.tobytes()
    assert load("run").labels_.compute().tolist() == EXPECTED.labels_.tolist()
    age, income = EXPECTED.cluster_centers_[1]
    shown = CliRunner().invoke(main, ["show", "run"]).output
    assert f"center 1    age: {age:.6g}; income, gross: {income:.6g}\n" in shown
    for words, told in (
        (["data/none*.parquet"], "no file matches"),
        (["data/part.*.parquet", "--weights", "v"], "there is no column 'v' in data, which has"),
    ):
        failed = CliRunner().invoke(main, ["fit", *words, "run2", "--penalty", "9"])
        assert failed.exit_code == 2
        assert told in failed.output


@pytest.mark.parametrize("command", ["penalty {} -k 3", "path {} --penalties 9,99"])
def test_penalties_are_found_of_named_columns_beside_texts(command, tmp_path):
    rng = np.random.default_rng(0)
    table = {"name": ["a"] * 60, "height cm": rng.normal(size=60), "n": rng.integers(1, 3, 60)}
    pd.DataFrame(table).to_csv(tmp_path / "t.csv", index=False)
    np.save(tmp_path / "rows.npy", table["height cm"][:, np.newaxis])
    np.save(tmp_path / "n.npy", table["n"])
    said = []
    for data, more in (
        ("t.csv", ["--columns", "height cm", "--weights", "n"]),
        ("rows.npy", ["--weights", str(tmp_path / "n.npy")]),
    ):
        words = command.format(tmp_path / data).split()
        found = CliRunner().invoke(main, [*words, *more, "--json"])
        assert found.exit_code == 0, found.output
        said.append(json.loads(found.output.splitlines()[-1]))
    told = [each.get("farthest_first", each) for each in said]
    for name in ("penalties", "inertias"):
        assert told[0].get(name) == told[1].get(name)


@pytest.mark.parametrize("form", [*FORMS, "parquet", "array"])
@pytest.mark.parametrize("columns", ["age", "0,1", b"age", slice(2), 1, {0, 1}])
def test_columns_are_a_list(form: str, columns: object, tmp_path: Path) -> None:
    FRAME.to_parquet(tmp_path / "t.parquet")
    table = FORMS[form](FRAME) if form in FORMS else tmp_path / "t.parquet"
    if form == "array":
        table = ROWS
    told = r"^columns must be a list of names or of numbers, such as .*, got "
    with pytest.raises(InputError, match=told + re.escape(repr(columns))):
        fit(table, tmp_path / "run", DPMeans(9.0), columns=columns)


@pytest.mark.parametrize("columns", [pd.Index(NAMES), np.array(NAMES), tuple(NAMES)])
def test_names_of_columns_come_as_any_sequence(columns: object, tmp_path: Path) -> None:
    model = fit(FRAME, tmp_path / "run", DPMeans(9.0), columns=columns)
    assert list(model.feature_names_in_) == NAMES


def test_columns_of_objects_that_are_not_used_hold_anything(tmp_path: Path) -> None:
    objects = np.column_stack([ROWS, ["a"] * len(ROWS)]).astype(object)
    objects[:, :2] = ROWS[:, :2]
    objects[0, 2] = 2**70
    model = fit(objects, tmp_path / "run", DPMeans(9.0), columns=[0, 1])
    same = fit(ROWS[:, :2], tmp_path / "same", DPMeans(9.0))
    assert model.cluster_centers_.tobytes() == same.cluster_centers_.tobytes()
    assert objects[0, 2] == 2**70
    with pytest.raises(InputError, match=r"holds the integer \d+ at row 0, column 2"):
        fit(objects, tmp_path / "all", DPMeans(9.0), columns=[0, 2])
