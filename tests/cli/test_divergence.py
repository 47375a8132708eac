"""Tables with counts, categories and holes, from the command line."""

import json
import re
from importlib.resources import files

import click
import jsonschema
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from dask_dpmeans import DPMeans, fit, load
from dask_dpmeans.cli import main
from dask_dpmeans.cli.options import DIVERGENCE
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.center_labels import center_labels, center_texts
from dask_dpmeans.figures.data import density, sizes
from dask_dpmeans.figures.data.columns import feature_names
from dask_dpmeans.kernels.encoding import Layout
from dask_dpmeans.report import page
from dask_dpmeans.report.page import html
from dask_dpmeans.report.run_rows import NOT_FLAT

DIVERGENCES = "age=squared,visits=poisson,color=categorical"
FIT = ["--penalty", "3", "--divergence", DIVERGENCES, "--missing", "observed"]


@click.command()
@DIVERGENCE
def echo(divergence):
    click.echo(json.dumps(divergence))


def parsed(text):
    return CliRunner().invoke(echo, ["--divergence", text])


names = st.text(st.characters(categories=["L", "N"]), min_size=1)


@given(st.dictionaries(names, names, min_size=1))
def test_a_divergence_may_be_given_for_each_column(given_names):
    text = ",".join(f"{column}={name}" for column, name in given_names.items())
    assert json.loads(parsed(text).output) == given_names


def test_one_name_is_the_divergence_of_all_columns():
    assert json.loads(parsed("poisson").output) == "poisson"
    assert json.loads(CliRunner().invoke(echo, []).output) == "squared"


@pytest.mark.parametrize(
    "text", ["age=", "=poisson", "age=squared,poisson", "age=squared,,b=poisson"]
)
def test_a_column_without_a_divergence_is_refused(text):
    result = parsed(text)
    assert result.exit_code == 2
    assert "is not a column and its divergence, such as color=categorical" in result.output


def test_a_column_named_twice_is_refused():
    assert "names the column 'age' twice" in parsed("age=squared,age=poisson").output


@pytest.fixture
def table(tmp_path):
    rng, n = np.random.default_rng(0), 200
    kind = rng.integers(0, 3, n)
    frame = pd.DataFrame(
        {
            "age": rng.normal(size=n) + 5 * kind,
            "visits": rng.poisson(3 * kind + 1).astype(float),
            "color": pd.Categorical(np.array(["red", "green", "blue"])[kind]),
        }
    )
    frame.loc[::17, "age"] = np.nan
    frame.loc[3::19, "color"] = None
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=60)
    return tmp_path / "rows.parquet", frame


def run(*arguments):
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_a_table_of_all_kinds_is_fitted_shown_and_predicted(table, tmp_path):
    path, frame = table
    out, new = tmp_path / "run.zarr", tmp_path / "new.zarr"
    dry = CliRunner().invoke(main, ["fit", str(path), str(out), *FIT, "--dry-run"])
    assert (dry.exit_code, "leave out divergence and missing" in dry.output) == (2, True)
    run("fit", path, out, *FIT, "--seed", 0)
    divergence = {"age": "squared", "visits": "poisson", "color": "categorical"}
    expected = DPMeans(3.0, divergence=divergence, missing="observed", random_state=0).fit(frame)
    model = load(out)
    assert model.cluster_centers_.tobytes() == expected.cluster_centers_.tobytes()
    assert model.labels_.compute().tolist() == expected.labels_.tolist()
    assert feature_names(model) == ["age", "visits", "color=blue", "color=green", "color=red"]
    run("fit", path, out, *FIT, "--resume")
    shown = json.loads(run("show", out, "--json"))
    assert shown["input"]["categories"] == {"2": ["blue", "green", "red"]}
    schema = json.loads(files("dask_dpmeans").joinpath("schemas/show.json").read_text("utf-8"))
    jsonschema.validate(shown, schema)
    run("predict", out, path, new)
    assert CliRunner().invoke(main, ["export", str(out), str(tmp_path / "a.json")]).exit_code == 2


@pytest.fixture
def fitted(table, tmp_path):
    """A run with categories, missing values and an outlier."""
    path, frame = table
    frame.loc[5, ["age", "visits", "color"]] = [900.0, 3.0, "red"]
    frame.to_parquet(path)
    outliers = ["--outlier-penalty", "9", "--penalty", "40", "--search", "--seed", "0"]
    run("fit", path, tmp_path / "run.zarr", *FIT, *outliers)
    return tmp_path / "run.zarr", path


def test_show_tells_centers_by_category_and_calls_costs_divergences(fitted):
    said = run("show", fitted[0])
    assert re.search(r"^center 0 +age: [-.\d]+; visits: [.\d]+; color: \w+ \d+ %", said, flags=re.M)
    assert re.search(rf"^divergence +{DIVERGENCES.replace(',', ', ')}$", said, flags=re.M)
    assert "metric" not in said
    assert "1 row is an outlier" in said
    model = load(fitted[0])
    for line in json.loads(run("show", fitted[0], "--json"))["clusters"]:
        assert list(line["center"].values()) == model.cluster_centers_[line["cluster"]].tolist()
        assert list(line["center"]) == feature_names(model)


def test_a_radius_of_divergences_is_no_distance(table, tmp_path):
    run("fit", table[0], tmp_path / "run.zarr", *FIT)
    assert "3: a row that costs more at every center opens" in run("show", tmp_path / "run.zarr")


def test_a_page_of_divergences_has_a_tree_and_leaves_out_maps(fitted):
    made = page(fitted[0])
    (table,), titles = made.tables, made.tables[0].columns
    assert titles[3:] == ["divergence", "mean divergence of a row", "age", "visits", "color"]
    shares = [line[-1] for line in table.lines]
    assert all(re.match(r"\w+ \d+ %", each) for each in shares)
    assert made.overview is not None
    assert (made.maps, made.overview.pairs) == ([], [])
    assert NOT_FLAT in made.notes
    assert [each.source is None for each in made.pictures if each.title == "Tree"] == [False]
    with pytest.raises(InputError, match="columns are for a map of the rows"):
        page(fitted[0], columns=[0, 1])


def test_cards_of_divergences_need_no_rows_and_show_means_and_shares_beside_all(fitted):
    run_path, path = fitted
    rows, model = pd.read_parquet(path), load(run_path)
    path.unlink()
    made = page(run_path)
    shares = rows.color.value_counts(normalize=True)
    assert [each.cluster for each in made.overview.clusters] == np.argsort(
        -model.cluster_weights_, kind="stable"
    ).tolist()
    for each in made.overview.clusters:
        own = model.cluster_centers_[each.cluster]
        found = {column.name: column.parts for column in each.columns}
        assert sorted(found) == ["age", "color", "visits"]
        for place, name in enumerate(["age", "visits"]):
            (part,) = found[name]
            np.testing.assert_allclose([part.own, part.overall], [own[place], rows[name].mean()])
            at_end = 0.5 + np.sign(part.own - part.overall) * part.width
            assert part.left == min(0.5, at_end)
        codes = {"blue": 2, "green": 3, "red": 4}
        for part in found["color"]:
            expected = own[codes[part.label]], shares[part.label]
            np.testing.assert_allclose([part.own, part.overall], expected)
        (first, *_) = each.columns[0].parts
        assert first.own != pytest.approx(first.overall, rel=0.1)
        assert all(near.distance > 0 for near in each.neighbors)
    assert "1 row is an outlier: it costs more than 9" in made.sentence
    text = html(made)
    for part in ("mean divergence", "visits", "(all ", "color: ", "a row</li>"):
        assert part in text


def test_one_cluster_is_not_told_apart_by_errors_of_rounding(tmp_path):
    rows = np.random.default_rng(0).normal(size=(300, 2))
    fit(rows, tmp_path / "run.zarr", DPMeans(1e9, missing="observed", random_state=0))
    (one,) = page(tmp_path / "run.zarr").overview.clusters
    assert [(part.left, part.width) for each in one.columns for part in each.parts] == [
        (0.5, 0.0)
    ] * 2


def test_maps_and_probabilities_of_divergences_are_refused(fitted, tmp_path):
    model, path = load(fitted[0]), fitted[1]
    rows = pd.read_parquet(path)
    with pytest.raises(InputError, match="draw its sizes or its profile"):
        density(rows, model)
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "margin")
    found = sizes(model)
    means = model.cluster_inertias_ / model.cluster_weights_
    assert found.radii.tolist() == means[found.clusters].tolist()
    words = ["predict", str(fitted[0]), str(path), str(tmp_path / "soft.zarr"), "--soft", "2"]
    assert CliRunner().invoke(main, words).exit_code == 2


def test_a_category_that_the_run_did_not_have_counts_as_missing_or_is_named(table, tmp_path):
    path, frame = table
    new, out = tmp_path / "new.parquet", tmp_path / "run.zarr"
    color = frame.color.cat.rename_categories({"red": "pink"})
    frame.assign(color=color).dropna().to_parquet(new)
    run("fit", path, out, *FIT)
    run("predict", out, new, tmp_path / "labels.zarr")
    frame.dropna().to_parquet(path)
    run("fit", path, out, "--force", *FIT[:-2])
    result = CliRunner().invoke(main, ["predict", str(out), str(new), str(tmp_path / "l.zarr")])
    assert result.exit_code == 2
    assert "column 'color' holds the category 'pink', which the fit did not have" in result.output


def test_columns_of_centers_are_named_by_category():
    layout = Layout(("categorical", "poisson", "categorical"), (2, 0, 3))
    labels = center_labels(layout, ["a", "b", "c"], {0: ("x", True)})
    assert labels == ["a=x", "a=True", "b", "c=0", "c=1", "c=2"]


def test_a_center_is_told_by_its_greatest_shares():
    layout = Layout(("categorical", "squared", "categorical"), (5, 0, 2))
    center = np.array([0.1, 0.4, 0.004, 0.2, 0.296, -1.25, 0.0, 0.0])
    told = center_texts(center, layout, ["a", "b", "c"], {0: "vwxyz"})
    assert told == ["a: w 40 %, z 30 %, y 20 %", "b: -1.25", "c: none"]
