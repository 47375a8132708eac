"""Options for rows as they are, where most estimators and commands do not take them; and trees of all kinds of rows."""

import inspect
import re

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from rows_cases import NAMED
from strategies import seeds

import dask_dpmeans
from dask_dpmeans import DPMeans, InputError, LinkageDPMeans, fit, penalty
from dask_dpmeans.cli import main
from dask_dpmeans.errors import InputTypeError
from dask_dpmeans.estimators.row_options import COSTS, OF_DENSITIES, OF_KMEANS, OF_PRICES, WAYS_OUT
from dask_dpmeans.figures.data.columns import drawn_centers
from dask_dpmeans.kernels.block import Scratch
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.kernels.encoding import Encoding
from dask_dpmeans.kernels.great_circle import EARTH_RADIUS
from dask_dpmeans.registry import METHODS
from dask_dpmeans.selection.tree import cluster_tree

ESTIMATORS = {
    name: found
    for name in dask_dpmeans.__all__
    if inspect.isclass(found := getattr(dask_dpmeans, name)) and hasattr(found, "fit")
}
OPTIONS = [*WAYS_OUT, *OF_PRICES]


def options_of(estimator):
    """The options of an estimator, and a value for each one without a default."""
    own = inspect.signature(estimator).parameters
    return own, {name: 1.0 for name, told in own.items() if told.default is inspect.Parameter.empty}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("option", OPTIONS)
def test_an_estimator_has_an_option_or_says_why_not_and_what_to_do(name, option):
    estimator = ESTIMATORS[name]
    own, needed = options_of(estimator)
    if option in own:
        assert getattr(estimator(**needed, **{option: "x"}), option) == "x"
        return
    told = rf"^{name} has no option {option}, (since .{{20,}}: |DPMeans alone has it).*"
    for error in (InputError, TypeError):
        with pytest.raises(error, match=told):
            estimator(**needed, **{option: "x"})
    with pytest.raises(TypeError, match="unexpected keyword argument 'divergense'"):
        estimator(**needed, divergense="x")


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("option", OF_KMEANS)
def test_an_option_of_kmeans_is_named_as_one(name, option):
    estimator = ESTIMATORS[name]
    own, needed = options_of(estimator)
    assert option not in own
    with pytest.raises(TypeError, match=f"^{name} has no option {option}, which is one of KMeans"):
        estimator(**needed, **{option: 1})


DENSITIES = {
    "min_cluster_size": ("HDBSCAN", {"min_cluster_weight": 20}),
    "min_samples": ("HDBSCAN", {"noise": 0.2}),
    "eps": ("DBSCAN", {"penalty": 4.0}),
    "cluster_selection_epsilon": ("HDBSCAN", {"penalty": 4.0}),
    "cluster_selection_method": ("HDBSCAN", "labels_at of LinkageDPMeans"),
    "allow_single_cluster": ("HDBSCAN", "One cluster is a possible answer"),
}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("option", DENSITIES)
def test_an_option_of_hdbscan_or_dbscan_says_what_to_do(name, option):
    estimator = ESTIMATORS[name]
    own, needed = options_of(estimator)
    assert option not in own
    assert set(DENSITIES) == set(OF_DENSITIES)
    library, wanted = DENSITIES[option]
    told = rf"^{name} has no option {option}, which is one of {library}: .*"
    with pytest.raises(TypeError, match=told) as refused:
        estimator(**needed, **{option: 1})
    if isinstance(wanted, str):
        assert wanted in str(refused.value)
        return
    way = re.search(r"(Linkage)?DPMeans\(\w+=[^)]*\)", str(refused.value))[0]
    model = eval(way, {"DPMeans": DPMeans, "LinkageDPMeans": LinkageDPMeans, "eps": 2.0})
    assert wanted.items() <= model.get_params().items()


def test_the_command_names_an_option_of_kmeans():
    result = CliRunner().invoke(main, ["fit", "a.npy", "b.zarr", "--n-init=3"])
    assert result.exit_code == 2
    assert "DPMeans has no option n_init, which is one of KMeans" in result.output


@pytest.mark.parametrize("init", ["k-means++", "k-means||", "random"])
def test_first_centers_that_kmeans_draws_are_to_be_left_out(init):
    model = DPMeans(4.0, init=init)
    with pytest.raises(InputError, match=r"first centers are not drawn, .*: leave init out$"):
        model.fit(np.zeros((3, 2)))


COMMANDS = {each.command: name for name, each in METHODS.items() if each.command}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("option", ["divergence", "missing", "outlier_penalty", "discount"])
def test_a_command_has_an_option_or_says_why_not_and_what_to_do(command, option, tmp_path):
    flag = f"--{option.replace('_', '-')}"
    words = [command, str(tmp_path / "no.npy"), str(tmp_path / "run.zarr"), f"{flag}=1"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    untaken = f"Error: {COMMANDS[command]} has no option {option}, "
    assert (untaken in result.output) == (
        option not in inspect.signature(ESTIMATORS[COMMANDS[command]]).parameters
    ), result.output
    result = CliRunner().invoke(main, [command, "a", "b", "--divergense=1"])
    assert "No such option" in result.output


def test_each_estimator_without_them_has_a_reason():
    assert set(COSTS) == set(ESTIMATORS) - {"DPMeans"}
    assert all(COSTS[name] for name in COSTS if name != "HDPMeans")


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
@pytest.mark.parametrize("option", ["n_clusters", "clusters", "n_components", "k"])
def test_a_number_of_clusters_is_refused_with_what_takes_one(name, option):
    estimator = ESTIMATORS[name]
    own = inspect.signature(estimator).parameters
    if option in own:
        return
    if "n_clusters" in own:
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{option}'"):
            estimator(**{option: 3})
        return
    with pytest.raises(TypeError, match=rf"{name} has no option {option}, since the penalty dec"):
        estimator(**{option: 3})


@pytest.mark.parametrize(
    "estimator",
    [
        dask_dpmeans.KernelDPMeans,
        dask_dpmeans.SpectralDPMeans,
        dask_dpmeans.OnlineDPMeans,
        dask_dpmeans.SplitMergeDPMeans,
    ],
)
def test_a_penalty_that_is_needed_is_asked_for_with_an_example(estimator):
    with pytest.raises(InputTypeError, match=r"needs a penalty, such as (\S+): help") as caught:
        estimator()
    example = str(caught.value).partition("such as ")[2].partition(": help")[0]
    X = np.random.default_rng(0).standard_normal((30, 2))
    assert eval(f"dask_dpmeans.{example}").fit(X).n_clusters_ >= 1
    assert estimator(2.0).penalty == estimator(penalty=2.0).penalty
    for other in re.findall(r"(\w+)\(\)", str(caught.value)):
        assert getattr(dask_dpmeans, other)().fit(X).n_clusters_ >= 1


def test_what_is_told_of_a_number_of_clusters_works():
    rows = np.arange(30.0).reshape(-1, 1) // 10 * 90 + np.random.default_rng(0).random((30, 1))
    assert penalty.penalty_for(rows, 3, search=True, random_state=0).n_clusters == 3
    assert LinkageDPMeans(n_clusters=3, random_state=0).fit(rows).n_clusters_ == 3


# Trees

FLAT = [name for name in NAMED if "discount" not in name]


def at_means(model, rows):
    """The model with its centers at the means of its rows; those with ties may have kept others."""
    labels = np.asarray(model.labels_)
    if isinstance(model.features_, Encoding):
        values = model.features_(rows.X, Scratch())[: rows.n].copy()
        clusters = [labels == c for c in range(model.n_clusters_)]
        averages = [
            rows.weights[each] @ values[each] / rows.weights[each].sum() for each in clusters
        ]
        model._set_averages(np.stack(averages))
    return labels


@settings(max_examples=8)
@given(st.sampled_from(FLAT), seeds)
def test_the_figures_of_a_tree_are_what_recomputing_gives(name, seed):
    instance = NAMED[name].instance(seed, 16)
    rows, divided = instance.rows, instance.price.penalty / 5
    model = instance.model(penalty=divided, search=True, tol=0.0, random_state=0)
    labels = at_means(model.fit(rows.X, sample_weight=rows.weights), rows)
    tree = cluster_tree(model)
    assert model.n_clusters_ == 1 or tree.levels[-1].n_clusters == 1
    rounding = 1e-12 * rows.inertia(range(16))  # of differences of sums over rows that are alike
    for level in tree.levels:
        own = level.labels(labels)
        clusters = [np.flatnonzero(own == c) for c in range(level.n_clusters)]
        wanted = [rows.inertia(each) for each in clusters]
        np.testing.assert_allclose(level.inertias, wanted, rtol=1e-9, atol=rounding)
        assert level.centers.shape == (level.n_clusters, model.cluster_centers_.shape[1])


def test_a_tree_of_places_counts_squared_chords():
    rng = np.random.default_rng(0)
    towns = np.column_stack([rng.uniform(-60, 60, 6), rng.uniform(-150, 150, 6)])
    places = np.repeat(towns, 20, axis=0) + rng.normal(size=(120, 2))
    model = DPMeans(1e6, metric="haversine", search=True, tol=0.0, random_state=0).fit(places)
    points = points_of(places)
    levels = cluster_tree(model).levels
    assert [levels[0].n_clusters > 1, levels[-1].n_clusters] == [True, 1]
    for level in levels:
        own = level.labels(model.labels_)
        for c in range(level.n_clusters):
            among = points[own == c]
            length = np.linalg.norm(among.sum(axis=0))
            wanted = 2 * EARTH_RADIUS * (EARTH_RADIUS * len(among) - length)
            assert level.inertias[c] == pytest.approx(wanted, rel=1e-9)


def points_of(places):
    """Points on a sphere of the radius of the earth."""
    lat, lon = np.radians(places).T
    directions = np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)
    return EARTH_RADIUS * np.stack(directions, axis=1)


class Absolute(Divergence):
    """Half the squared distance, as a value of a user."""

    def costs(self, rows, centers, labels):
        return ((rows - centers[labels]) ** 2).sum(axis=1) / 2


def test_costs_of_a_user_are_for_rows_in_memory_and_no_run(tmp_path):
    rows = np.arange(8.0).reshape(4, 2)
    for search in (False, True):
        model = DPMeans(20.0, divergence=Absolute(), search=search, random_state=0)
        with pytest.raises(InputError, match=r"Absolute.* is one of your own, which a run cannot"):
            fit(rows, tmp_path / "run", model)
        assert list(tmp_path.iterdir()) == []
        assert model.fit(rows).n_clusters_ >= 1


def test_costs_of_a_user_make_a_tree_and_no_map():
    rng = np.random.default_rng(0)
    X = np.arange(4).repeat(10)[:, np.newaxis] * [[9.0, 1.0]] + rng.normal(size=(40, 2))
    own = DPMeans(20.0, divergence=Absolute(), search=True, tol=0.0, random_state=0).fit(X)
    plain = DPMeans(40.0, search=True, tol=0.0, random_state=0).fit(X)
    with pytest.raises(InputError, match="this fit has other divergences"):
        drawn_centers(own)
    for one, other in zip(cluster_tree(own).levels, cluster_tree(plain).levels, strict=True):
        np.testing.assert_allclose(2 * np.sort(one.inertias), np.sort(other.inertias))
