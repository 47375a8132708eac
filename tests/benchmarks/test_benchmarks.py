"""The benchmarks at a small size: their competitors answer the same, and their tables have all lines.  Never a time."""

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import assignment
import bounds
import click
import data_sets
import density
import first_sweep
import graphs
import numpy as np
import objective
import out_of_core
import peers
import published
import pytest
import ratios
import resident
import scaling
import settled
import soft
import told_peers
import wide
import zarr
from click.testing import CliRunner
from sklearn.datasets import load_iris

from dask_dpmeans import DPMeans
from dask_dpmeans.api.synthetic import Synthetic
from dask_dpmeans.kernels.assign import Scan
from dask_dpmeans.kernels.distance import Centers, squared_distances
from dask_dpmeans.methods.dpmeans.batch import Method
from dask_dpmeans.sources import as_source

SMALL = assignment.Shape(n=1500, d=6, k=9, most_gemm=1.6, least_lloyd=2.0)


def brute_force(rows: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """The nearest center of each row, by definition."""
    each = [
        squared_distances(rows, centers, np.full(len(rows), center))
        for center in range(len(centers))
    ]
    return np.argmin(each, axis=0)


def assert_same(left: Scan, right: Scan) -> None:
    """Sums in another order, of the same rows in the same clusters."""
    np.testing.assert_array_equal(left.moments.counts, right.moments.counts)
    np.testing.assert_allclose(left.moments.sums, right.moments.sums, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(left.moments.inertias, right.moments.inertias, rtol=1e-9)
    assert len(left.proposals) == len(right.proposals) == 0


def test_the_assignment_is_the_one_that_brute_force_finds() -> None:
    problem = assignment.Problem.of(SMALL)
    labels = problem.nearest()
    np.testing.assert_array_equal(labels, brute_force(problem.rows, problem.centers))
    np.testing.assert_array_equal(
        problem.scan().moments.counts, np.bincount(labels, minlength=SMALL.k)
    )


def test_the_assignment_is_the_one_that_lloyd_makes() -> None:
    problem = assignment.Problem.of(SMALL)
    lloyd = problem.lloyd(2)
    ours = assignment.Problem(problem.rows, lloyd.cluster_centers_.astype(np.float64))
    # scikit-learn ranks by float32: its labels may differ from the definition's in near-ties alone.
    distances = [
        squared_distances(ours.rows, ours.centers, labels)
        for labels in (ours.nearest(), lloyd.labels_)
    ]
    np.testing.assert_allclose(*distances, rtol=1e-4)


def test_a_lloyd_iteration_is_timed_over_iterations_that_were_made() -> None:
    problem = assignment.Problem.of(SMALL)
    assert (
        tuple(problem.lloyd(each).n_iter_ for each in assignment.LLOYD_ITERATIONS)
        == assignment.LLOYD_ITERATIONS
    )


def test_the_table_of_assignments_has_its_lines() -> None:
    lines = assignment.lines(SMALL, assignment.compare(SMALL, repeats=2))
    assert [line.what for line in lines] == [
        "bare GEMM",
        "nearest",
        "scan",
        "Lloyd iteration",
        "nearest / bare GEMM",
        "scan / bare GEMM",
        "Lloyd iteration / nearest",
        "Lloyd iteration / scan",
    ]


def test_vectors_of_a_file_are_rows_or_centers(tmp_path: Path) -> None:
    np.save(tmp_path / "vectors.npy", np.arange(60.0).reshape(20, 3))
    problem = assignment.Problem.of_vectors(str(tmp_path / "vectors.npy"), 16, 4)
    both = np.concatenate([problem.rows, problem.centers])
    assert sorted(both.tolist()) == np.arange(60.0).reshape(20, 3).tolist()
    shape = assignment.Shape(16, 3, 4, 1.0, 0.0)
    found = assignment.lines(shape, assignment.compare(shape, 1, problem))
    assert [line.what for line in found][-2:] == ["nearest / bare GEMM", "scan / bare GEMM"]


def test_parts_of_the_resident_rows_are_those_of_the_array() -> None:
    rows = resident.Rows(chunks=5, chunk_rows=30, d=3)
    np.testing.assert_array_equal(
        rows.part(20, 130), rows.array()[20:130].compute(scheduler="sync")
    )


@pytest.mark.timeout(120)
def test_a_resident_pass_answers_as_the_kernel_alone() -> None:
    comparison = resident.compare(resident.Rows(chunks=50, chunk_rows=700, d=16), k=5, repeats=1)
    assert_same(comparison.answers[resident.KERNEL], comparison.answers[resident.PASS])
    assert comparison.answers[resident.PASS].moments.counts.sum() == 50 * 700
    assert [line.what for line in comparison.lines] == [
        "kernel alone",
        "pass",
        "pass / kernel alone",
        "building the source, once",
    ]


@pytest.mark.timeout(120)
def test_a_pass_out_of_core_sums_what_zarr_reads(tmp_path: Path) -> None:
    layout = out_of_core.Layout(n=8 * 500, d=64, chunk_rows=500)
    array = out_of_core.stored(tmp_path / "whole.zarr", layout)
    comparison = out_of_core.compare(tmp_path / "whole.zarr", k=4, repeats=1)
    assert comparison.answer.moments.counts.sum() == layout.n
    np.testing.assert_allclose(
        comparison.answer.moments.sums.sum(axis=0), array[:].sum(axis=0, dtype=np.float64)
    )
    assert comparison.total == pytest.approx(float(array[:].sum(dtype=np.float64)), rel=1e-3)
    assert [line.what for line in comparison.lines] == [
        "reading and summing",
        "pass",
        "pass / reading and summing",
    ]


def test_a_pass_over_a_store_stands_beside_one_in_memory(tmp_path: Path) -> None:
    out_of_core.stored(tmp_path / "narrow.zarr", out_of_core.Layout(n=4000, d=3, chunk_rows=500))
    streamed, in_memory = (
        as_source(str(tmp_path / "narrow.zarr"), threads=2, memory_limit=limit)
        for limit in (48_000, 10**9)
    )
    assert (streamed.resident, in_memory.resident) == (False, True)
    sweep = out_of_core.sweep_of(tmp_path / "narrow.zarr", 200)
    for _ in range(2):
        assert_same(out_of_core.passed(streamed, sweep), out_of_core.passed(in_memory, sweep))
    assert not streamed.ledger.kept
    assert not out_of_core.anew(streamed).ledger.kept
    assert not any(shard.memories for shard in out_of_core.anew(in_memory).shards)
    lines = out_of_core.beside_memory(tmp_path / "narrow.zarr", k=4, repeats=1)
    assert [line.what for line in lines] == [
        "pass in memory",
        "streamed pass",
        "streamed pass / pass in memory",
    ]


@pytest.mark.timeout(120)
def test_the_peak_memory_is_that_of_the_workers(tmp_path: Path) -> None:
    layout = out_of_core.Layout(n=8 * 500, d=64, chunk_rows=500)
    stores = tmp_path / "eighth.zarr", tmp_path / "whole.zarr"
    for path, rows in zip(stores, (layout.eighth(), layout), strict=True):
        out_of_core.stored(path, rows)
    lines = out_of_core.memory_lines(*stores, k=4)
    assert [line.what for line in lines] == [
        "peak of a worker, 1/8 of the rows",
        "peak of a worker, all rows",
        "all rows / 1/8 of the rows",
    ]
    assert 10 < float(lines[0].value.removesuffix(" MB")) < 10_000


@pytest.mark.timeout(120)
def test_the_pass_of_many_data_sets_stands_beside_a_plain_one(tmp_path: Path) -> None:
    sets = data_sets.Sets(n_sets=60, set_rows=50, d=3)
    data_sets.stored(tmp_path / "sets.zarr", sets, at_once=7)
    data_sets.stored(tmp_path / "sets.zarr", sets)
    with pytest.raises(click.UsageError, match="holds other data sets"):
        data_sets.stored(tmp_path / "sets.zarr", data_sets.Sets(60, 50, 4))
    groups = zarr.open_array(tmp_path / "sets.zarr/groups")[:]
    assert np.bincount(groups).tolist() == [50] * 60
    source = as_source(str(tmp_path / "sets.zarr/rows"), groups=groups, threads=2)
    state, said = data_sets.fitted(source, sets.method)
    assert len(said) == state.step
    assert state.n_local_clusters <= 60 * data_sets.CENTERS
    lines = data_sets.compare(source, sets.method, state, 1)
    names = [data_sets.HDP, data_sets.PLAIN]
    assert [line.what for line in lines] == [*names, " / ".join(names)]


def test_a_store_is_written_once_and_not_taken_for_another(tmp_path: Path) -> None:
    path, layout = tmp_path / "whole.zarr", out_of_core.Layout(n=80, d=2, chunk_rows=10)
    first = out_of_core.stored(path, layout)[:]
    np.testing.assert_array_equal(out_of_core.stored(path, layout)[:], first)
    assert [each.name for each in tmp_path.iterdir()] == ["whole.zarr"]
    with pytest.raises(out_of_core.click.UsageError, match="remove it, or say where"):
        out_of_core.stored(path, layout.eighth())


def test_an_eighth_of_a_store_has_an_eighth_of_its_chunks() -> None:
    layout = out_of_core.Layout.of(8.0)
    assert 7.9e9 < 4 * layout.d * layout.n < 8.1e9
    assert len(layout.eighth().starts) == len(layout.starts) // 8


def test_a_folder_that_nobody_named_is_gone_afterwards(tmp_path: Path) -> None:
    with out_of_core.folder(None) as place:
        (place / "store").mkdir()
    assert not place.exists()
    with out_of_core.folder(tmp_path / "kept") as place:
        pass
    assert place.exists()


def test_what_starts_later_does_not_inherit_what_dask_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT", "1")
    monkeypatch.delenv(
        "MALLOC_TRIM_THRESHOLD_", raising=False
    )  # as an earlier test may have left it
    with ratios.same_environment():
        os.environ.update(KEPT="2", MALLOC_TRIM_THRESHOLD_="65536")
    assert os.environ["KEPT"] == "1"
    assert "MALLOC_TRIM_THRESHOLD_" not in os.environ


def test_competitors_take_turns_after_a_warm_up() -> None:
    calls: list[str] = []

    def competitor(name: str, seconds: float) -> float:
        calls.append(name)
        return seconds

    times = ratios.interleaved(
        {"a": lambda: competitor("a", 3.0), "b": lambda: competitor("b", 2.0)}, repeats=2
    )
    assert calls == ["a", "b"] * 3
    assert ratios.ratio_line(times, "a", "b", most=1.4) == ratios.Line(
        "a / b", "1.50 (1.50 to 1.50)", "at most 1.4", "missed"
    )
    assert ratios.ratio_line(times, "a", "b", least=1.5).verdict == "met"


def test_the_command_prints_a_table_for_each_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assignment, "SHAPES", (SMALL,))
    result = CliRunner().invoke(
        assignment.main, ["--rows-fraction", "0.5", "--repeats", "1"], catch_exceptions=False
    )
    first, *lines = result.output.splitlines()
    assert first == "n=750 d=6 k=9, float32, one thread"
    assert len(lines) == 8


def test_bounds_of_iris_and_wine_are_proofs_of_their_optimum() -> None:
    output = (
        CliRunner()
        .invoke(bounds.main, ["--only", "iris", "--only", "wine"], catch_exceptions=False)
        .output
    )
    lines = [line.split() for line in output.splitlines()[1:]]
    assert [(line[0], line[4]) for line in lines] == [("iris", "3"), ("wine", "3")]
    assert all(0 <= float(line[5]) < 1e-4 for line in lines)


def test_the_tables_of_the_objective_have_all_lines() -> None:
    options = [
        "--rows-fraction",
        "0.01",
        "--seeds",
        "2",
        "--only",
        "blobs-20",
        "--part",
        "quality",
        "--part",
        "passes",
    ]
    result = CliRunner().invoke(objective.main, options, catch_exceptions=False)
    for line in ("penalty 2000: worst", "penalty 2000: best", "passes to 0.5 %"):
        assert line in result.stdout


def test_the_table_of_published_errors_has_the_certified_optima_of_iris(tmp_path: Path) -> None:
    (tmp_path / "published").mkdir()
    np.savez(tmp_path / "published" / "iris.npz", X=load_iris().data)
    options = ["--data", str(tmp_path), "--only", "iris", "--part", "published", "--seeds", "1"]
    result = CliRunner().invoke(objective.main, options, catch_exceptions=False)
    lines = result.stdout.splitlines()
    for k in (2, 3):
        assert any(line.startswith(f"  iris, k = {k}: worst  1.00000") for line in lines)
    assert sum("met" in line for line in lines) == 2 * len(published.ERRORS["iris"])


def test_the_search_of_the_benchmark_is_no_higher_than_the_planted_centers() -> None:
    rows = objective.rows_of("blobs-20", None, 0.02)
    assert rows is not None
    found = objective.searched(rows, 2000.0, 0)
    planted = Synthetic("blobs", len(rows), 4, 20, 0).centers
    squared = ((rows[:, np.newaxis] - planted) ** 2).sum(axis=2).min(axis=1)
    assert found.objective <= squared.sum() + 2000.0 * len(planted)
    assert found.passes_to(found.objective) <= found.passes


def test_the_settled_pass_answers_as_the_full_one_and_its_table_has_its_lines() -> None:
    shape = assignment.Shape(n=1500, d=3, k=150, most_gemm=0.3, least_lloyd=0.0)
    problem = assignment.Problem.of(shape)
    passes = [settled.Moving(problem, settled=True), settled.Moving(problem, settled=False)]
    for _ in range(4):
        one, other = (each() for each in passes)
        assert_same(one, other)
    assert [bool(each) for each in passes[0].shard.memories.values()] == [
        True
    ]  # something is kept of the one block
    lines = settled.lines(shape, settled.compare(shape, repeats=2))
    assert [line.what for line in lines][-2:] == [
        "settled pass / full pass",
        "settled pass / bare GEMM",
    ]


def test_the_table_of_few_rows_in_many_columns_has_its_lines() -> None:
    head, *lines, ratio = wide.table(((40, 300, 2),), strength=3.5, seed=0)
    assert head == "40 x 300, 2 clusters"
    names = [line.split(":")[0].strip() for line in lines]
    assert names == ["DPMeans()", "search", "HDBSCAN", "KMeans told k"]
    assert all("k = 2, ARI 1.00" in lines[place] for place in (0, 1, 3))
    assert float(ratio.rsplit(" ", 1)[1]) >= 1.0 - 1e-6


def test_the_table_of_probabilities_has_its_lines(tmp_path: Path) -> None:
    clouds = soft.Clouds(n=3000, d=2, k=5, apart=10.0)
    seconds, used = soft.compare(tmp_path, clouds, top=4, repeats=2)
    for times in (seconds, used):
        assert [line.what for line in soft.lines(times)][-2:] == [
            "predict_proba / predict",
            "store to store, soft / store to store",
        ]
    out = zarr.open_group(tmp_path / "out.zarr", mode="r")
    assert out["top_label"].shape == (3000, 4)
    np.testing.assert_array_equal(out["top_label"][:, 0], out["label"][:])


def test_a_simulated_pass_gathers_every_shard_and_the_tables_of_scaling_have_their_lines() -> None:
    job = scaling.MadeUp(Centers(np.zeros((3, 2))), proposals=4)
    answer = job.merge([job(number, range(1)) for number in range(5)])
    np.testing.assert_array_equal(answer.moments.counts, [10, 10, 10])
    np.testing.assert_array_equal(answer.moments.weights, [5, 5, 5])
    lines = list(scaling.coordinator([6, 20], 5, 3))
    assert [line.what for line in lines[:3]] == [
        "centers out, an answer in",
        "6 shards, run",
        "20 shards, run",
    ]
    assert len(lines) == 3 + 6
    costs = [line.what for line in scaling.costs(scaling.Size(2000, 2, 4), repeats=2)]
    assert costs[:3] == ["8 x the rows / pass", "8 x the clusters / pass", "8 x the columns / pass"]


def test_a_picture_of_rows_that_are_read_is_that_of_rows_in_memory(tmp_path: Path) -> None:
    out_of_core.stored(tmp_path / "rows.zarr", out_of_core.Layout(n=12_000, d=3, chunk_rows=1500))
    pictures, tables = zip(
        *(
            density.compare(tmp_path / "rows.zarr", k=5, repeats=1, streamed=streamed)
            for streamed in (False, True)
        ),
        strict=True,
    )
    assert len(pictures[0].centers) == 5
    assert pictures[0].counts is not None
    assert pictures[0].counts.sum() + pictures[0].outside == 12_000
    np.testing.assert_array_equal(pictures[0].counts, pictures[1].counts)
    for lines in tables:
        whats = [line.what for line in lines]
        assert whats == ["pass", "picture", "report", "picture / pass", "report / pass"]


def test_what_no_two_workers_do_at_once_is_serial() -> None:
    spans = [
        first_sweep.Span((worker, 0), start, stop, 0.0)
        for worker, start, stop in [(1, 2, 6), (2, 4, 7), (1, 6, 8)]
    ]
    assert first_sweep.serial_stretches(spans, 0.0, 10.0) == [(0.0, 4), (7, 10.0)]
    assert first_sweep.serial_stretches([], 0.0, 10.0) == [(0.0, 10.0)]
    together = [first_sweep.Span((worker, 0), 0.0, 10.0, 0.0) for worker in (1, 2)]
    assert first_sweep.serial_stretches(together, 0.0, 10.0) == []


def test_a_watched_sweep_is_the_first_of_a_fit_and_all_its_work_is_noted() -> None:
    rows = np.random.default_rng(0).uniform(size=(500, 3)).astype(np.float32)
    source = as_source(rows, threads=2, block_rows=64)
    sweep = first_sweep.Sweep.of(source, 0.1)
    method = Method(0.1)
    after = method.step(source, method.init(source))
    assert sum(each.births for each in sweep.rounds) == len(after.opened)
    assert sum(each.rows for each in sweep.rounds) == after.rows_read - len(rows)
    assert sweep.n_clusters == len(after.centers)
    for each in sweep.rounds:
        assert (
            len(each.spans) == 2 * -(-each.rows // 64) - 1
        )  # each block is scanned, any two neighbors merge
        assert all(each.start <= span.start <= span.stop <= each.stop for span in each.spans)
    assert sweep.start <= sweep.serial[0][0] < sweep.serial[-1][1] <= sweep.stop


@pytest.mark.timeout(120)
def test_the_tables_of_the_first_sweep_have_their_lines() -> None:
    options = ["--rows", "40000", "--columns", "3", "--blobs", "30", "--penalty", "25"]
    result = CliRunner().invoke(first_sweep.main, options, catch_exceptions=False)
    threads, workers = re.findall(
        r"^40,000 x 3 blobs, penalty 25, two (.*): k=([0-9,]+)$", result.output, re.MULTILINE
    )
    assert (threads[0], workers[0]) == ("threads", "Dask workers")
    assert threads[1] == workers[1]
    for line in ("round 1", "sweep", "CPU seconds of scans and merges", "all serial time / sweep"):
        assert len(re.findall(f"^  {line} ", result.output, re.MULTILINE)) == 2
    assert (
        len(
            re.findall(
                r"^  longest serial stretch / sweep .* at most 0.1 +(met|missed)$",
                result.output,
                re.M,
            )
        )
        == 2
    )


@pytest.fixture(scope="module")
def peers_output() -> str:
    """The tables of the peers, each fit in a process of its own."""
    options = [
        "--only",
        "blobs,chunks,store",
        "--rows-fraction",
        "0.0005",
        "--chunks",
        "4",
        "--pdc-python",
        sys.executable,
    ]
    return CliRunner().invoke(peers.main, options, catch_exceptions=False).output


@pytest.mark.timeout(600)
def test_each_peer_that_is_installed_has_its_line_and_a_missing_one_is_named(
    peers_output: str,
) -> None:
    installed = [peers.BIRTHS, peers.SEARCH, peers.QUICK, peers.BATCHES]
    told = [(key, peer.name, peer.module) for key, peer in told_peers.PEERS.items()]
    for name, line, module in (*told, ("dask-ml", peers.DASK_ML, "dask_ml")):
        if find_spec(module):
            installed.append(line)
        else:
            assert f"{name} is not installed: left out" in peers_output
    ours = peers.BIRTHS, peers.SEARCH, peers.QUICK
    for line in installed:
        found = rf"^  {re.escape(line)} +[0-9.]+ s; J [0-9.]+; k [0-9]+; .* passes; [0-9]+ MB"
        first = r"; first fit [0-9.]+ s" if line in ours else ""
        assert re.search(f"{found}{first}$", peers_output, re.MULTILINE), line
    assert "pdc is not installed where --pdc-python says: left out" in peers_output
    assert "failed" not in peers_output


def test_the_means_of_clusters_leave_out_rows_of_none_unless_all_are() -> None:
    rows = np.array([[0, 1], [2, 3], [9, 9], [5, 5]], np.float32)
    means = told_peers.means_of(rows, np.array([7, 7, -1, 2]))
    assert means.tolist() == [[5, 5], [1, 2]]
    assert told_peers.means_of(rows, np.full(4, -1)).tolist() == [[4, 4.5]]


@pytest.mark.timeout(600)
def test_the_objectives_beside_the_peers_are_what_the_library_finds(peers_output: str) -> None:
    data, problem = peers.blobs(0.0005)
    rows = np.concatenate([part for _, part, _ in data.parts()])
    for name, penalty, options in (
        (peers.BIRTHS, problem.births, {}),
        (peers.SEARCH, problem.price, {"search": True}),
        (peers.QUICK, problem.price, {"search": True, "effort": "quick"}),
    ):
        (objective,) = re.findall(
            rf"^  {name} .* J ([0-9.]+);", peers_output.split(" chunks on ")[0], re.MULTILINE
        )
        model = DPMeans(penalty, random_state=0, **options).fit(rows)
        assert float(objective) == pytest.approx(model.objective_, rel=1e-6)
        inertia = (
            ((rows[:, np.newaxis] - model.cluster_centers_) ** 2).sum(axis=2).min(axis=1).sum()
        )
        assert model.objective_ == pytest.approx(inertia + penalty * model.n_clusters_, rel=1e-9)


def test_a_peer_that_was_stopped_counts_as_the_time_until_then() -> None:
    fitted = peers.Fitted(2.0, np.zeros((1, 1)), 1, 1)
    found = {peers.BIRTHS: peers.Outcome(2.0, fitted, 1.0), peers.PDC: peers.Outcome(10.0)}
    (met,) = peers.time_lines(found, peers.PDC, peers.BIRTHS, least=5.0)
    assert (met.value, met.verdict) == ("> 5.000", "met")
    (unknown,) = peers.time_lines(found, peers.PDC, peers.BIRTHS, least=6.0)
    assert unknown.verdict == "open"
    (below,) = peers.time_lines(found, peers.BIRTHS, peers.PDC, most=1.0)
    assert (below.value, below.verdict) == ("< 0.200", "met")
    assert found[peers.PDC].text == "> 10 s"
    assert not list(peers.objective_lines(found, peers.BIRTHS, peers.PDC))


@pytest.mark.timeout(120)
def test_a_fit_that_takes_longer_than_the_limit_is_stopped(tmp_path: Path) -> None:
    np.save(
        tmp_path / "rows.npy", np.random.default_rng(0).standard_normal((200_000, 8), np.float32)
    )
    stopped = peers.outcome(
        told_peers.kmeans_10, told_peers.Task(tmp_path / "rows.npy", 1.0, k=200), limit=0.01
    )
    assert stopped == peers.Outcome(0.01)


def test_the_table_of_graph_cuts_has_each_method_and_none_is_lower_than_ours() -> None:
    output = (
        CliRunner()
        .invoke(graphs.main, ["--blocks", "6", "--size", "40"], catch_exceptions=False)
        .output
    )
    names = [
        "planted",
        graphs.OURS,
        "SpectralClustering, k given",
        *["Louvain", "Leiden"] * (graphs.Louvain is not None),
    ]
    assert all(f"\n  {name} " in output for name in names)
    assert output.count("met") == len(names) - 1
    assert "missed" not in output


def test_workers_that_read_a_graph_from_a_store_find_the_clusters_of_threads() -> None:
    graph, _ = graphs.planted(4, 50, 20.0, 5.0)
    one, other = graphs.in_memory(graph, -0.6), graphs.on_workers(graph, -0.6, 1, "1GB")
    assert one.tolist() == other.tolist()


def test_a_planted_graph_has_the_degrees_that_were_asked_for() -> None:
    graph, truth = graphs.planted(10, 200, 12.0, 5.0)
    inside = truth[graph.indices] == np.repeat(truth, np.diff(graph.indptr))
    assert (graph != graph.T).nnz == 0
    assert 11.0 < inside.sum() / len(truth) < 13.0
    assert 4.0 < (~inside).sum() / len(truth) < 5.0
