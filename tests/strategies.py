"""What the tests draw: tables, centers, weights, chunkings; and the bytes of a fit, to compare."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from dask_dpmeans import reference
from dask_dpmeans.engine.checkpoints import values_of
from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.kernels.block import Block
from dask_dpmeans.methods.dpmeans.batch import Method

settings.register_profile(
    "dask_dpmeans", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("dask_dpmeans")

DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
EXTREME = {np.dtype(np.float32): 1e30, np.dtype(np.float64): 1e150}
DYADIC = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Weights whose products with any float are exact."""

seeds = st.integers(0, 2**32 - 1)
SPARSE_PROBABILITIES = dict.fromkeys(
    ["check_estimator_sparse_array", "check_estimator_sparse_matrix"],
    "scikit-learn reads the tags of a classifier if there is predict_proba",
)
"""Checks of scikit-learn that a clusterer with `predict_proba` of sparse rows fails."""
SHUFFLED = [f"check_sample_weight_equivalence_on_{form}_data" for form in ("dense", "sparse")]
"""Checks of scikit-learn that shuffle the rows of one side."""
NUMBERING = dict.fromkeys(
    SHUFFLED, "it shuffles the rows, and clusters are numbered by their order"
)
"""Checks that a search fails by the numbers of its clusters alone."""


def _grid(rng, shape, dtype):
    """Many exact ties."""
    return rng.integers(-3, 4, shape)


def _clouds(rng, shape, dtype):
    return rng.normal(size=shape) + 4 * rng.integers(-2, 3, shape)


def _offset(rng, shape, dtype):
    """Far from the origin: what a product form of the distance loses."""
    return 1e4 + rng.normal(size=shape)


def _outliers(rng, shape, dtype):
    """1 % of the rows at 1e6, the structure of the others at 1e-4."""
    values = 1e-4 * (rng.normal(scale=0.1, size=shape) + rng.integers(0, 4, shape))
    values[:: max(2, min(100, shape[0])), 0] = 1e6
    return values


def _huge(rng, shape, dtype):
    return EXTREME[dtype] * rng.normal(size=shape)


def _tiny(rng, shape, dtype):
    return rng.normal(size=shape) / EXTREME[dtype]


def _subnormal(rng, shape, dtype):
    """The squares have few bits left."""
    return rng.normal(size=shape) * np.sqrt(np.finfo(dtype).smallest_subnormal) * 16


def _uneven(rng, shape, dtype):
    """Each column of its own magnitude."""
    return rng.normal(size=shape) * EXTREME[dtype] ** rng.uniform(-1, 1, shape[1])


KINDS = {
    "grid": _grid,
    "clouds": _clouds,
    "offset": _offset,
    "outliers": _outliers,
    "huge": _huge,
    "tiny": _tiny,
    "subnormal": _subnormal,
    "uneven": _uneven,
}
TAME = ("grid", "clouds", "offset", "outliers")


def table(kind: str, shape: tuple[int, int], dtype: Any, seed: int) -> np.ndarray:
    """The (n, d) table of a kind and a seed."""
    rng = np.random.default_rng(seed)
    return np.ascontiguousarray(KINDS[kind](rng, shape, np.dtype(dtype)), dtype)


@st.composite
def tables(draw, rows=(1, 40), columns=(1, 4), kinds=tuple(KINDS), dtypes=DTYPES):
    """(n, d) tables, each of one kind."""
    shape = draw(st.integers(*rows)), draw(st.integers(*columns))
    return table(draw(st.sampled_from(kinds)), shape, draw(st.sampled_from(dtypes)), draw(seeds))


@st.composite
def rows_and_centers(draw, rows=(1, 40), columns=(1, 4), most=12):
    """A table, and centers that are rows of it, midpoints, copies of each other or a last bit away from one another.

    The table ends in rows halfway between two centers, as near to a tie as its dtype allows.
    """
    values = draw(tables(rows, columns))
    rng = np.random.default_rng(draw(seeds))
    k = draw(st.integers(1, most))
    left, right, away = (
        values[rng.integers(len(values), size=k)].astype(np.float64) for _ in range(3)
    )
    centers = np.where(rng.random((k, 1)) < 0.5, left, left / 2 + right / 2)
    centers = np.where(rng.random((k, 1)) < 0.25, np.nextafter(centers, away), centers)
    centers[rng.integers(k, size=k // 4)] = centers[0]
    middle = centers[rng.integers(k, size=2 * k)] / 2 + centers[rng.integers(k, size=2 * k)] / 2
    return np.concatenate([values, middle.astype(values.dtype)]), centers


@st.composite
def weights_of(draw, n: int, among=DYADIC):
    """(n,) weights, not all 0, or None."""
    if draw(st.booleans()):
        return None
    weights = np.random.default_rng(draw(seeds)).choice(among, n)
    weights[draw(st.integers(0, n - 1))] = max(among)
    return weights


@dataclass(frozen=True)
class Problem:
    """Rows on an integer grid, where all sums are exact."""

    rows: np.ndarray
    weights: np.ndarray | None
    penalty: float
    block_rows: int
    threads: int

    @property
    def each(self) -> list[float]:
        """Each row's weight."""
        return [1.0] * len(self.rows) if self.weights is None else self.weights.tolist()


@st.composite
def grid_problems(draw, most=40, among=DYADIC):
    """Problems of up to `most` rows, cut into blocks and shards of all sizes; penalties that some distances equal."""
    shape = (
        draw(st.integers(most // 2, most) | st.integers(1, most)),
        draw(st.sampled_from([2, 1, 2])),
    )
    reach = draw(st.integers(1, 8))
    rows = np.random.default_rng(draw(seeds)).integers(-reach, reach + 1, shape)
    return Problem(
        rows.astype(draw(st.sampled_from(DTYPES))),
        draw(weights_of(len(rows), among)),
        reach**2 / draw(st.sampled_from([0.5, 1.0, 2.0, 4.0, 16.0])),
        2 ** draw(st.integers(0, 3)),
        draw(st.integers(1, 2)),
    )


def spread(rows: np.ndarray) -> float:
    """The mean squared distance of rows from their mean, 1 where that is 0: the scale of sensible penalties."""
    values = rows.astype(np.float64)
    return float(((values - values.mean(axis=0)) ** 2).sum(axis=1).mean()) or 1.0


@st.composite
def chunkings(draw, n: int, empty: bool = True):
    """Tuples of chunk sizes that sum to n."""
    cuts = draw(st.lists(st.integers(0, n), max_size=6, unique=not empty))
    bounds = [0, *sorted(cuts), n]
    sizes = tuple(stop - start for start, stop in pairwise(bounds))
    return sizes if empty else tuple(size for size in sizes if size) or (n,)


@dataclass(frozen=True)
class Nested:
    """A reduction that shows the merge tree, and every byte that a kernel sees."""

    def chunk(self, block: Block) -> str:
        """The block, as text."""
        beside = [
            array.tobytes().hex() for array in (block.weights, block.groups) if array is not None
        ]
        return (
            " ".join(
                [f"[{block.start} {block.rows.dtype.str} {block.rows.tobytes().hex()}", *beside]
            )
            + "]"
        )

    def combine(self, left: str, right: str) -> str:
        """Two neighbors, in parentheses."""
        return f"({left}{right})"


@st.composite
def groupings(draw, n):
    """(n,) numbers of data sets: mixed, in runs, all in one, one row each, some sets empty."""
    kind, rng = (
        draw(st.sampled_from(["mixed", "runs", "one", "each", "far"])),
        np.random.default_rng(draw(seeds)),
    )
    if kind == "one":
        return np.full(n, draw(st.integers(0, 3)))
    if kind == "each":
        return rng.permutation(n)
    numbers = rng.integers(0, draw(st.integers(1, 5)), n) * (7 if kind == "far" else 1)
    return np.sort(numbers) if kind == "runs" else numbers


def labels_of(source: Any, method: Any, state: Any) -> list[int]:
    """The label of each row as a state has it."""
    parts = {}
    source.map(
        method.labels(source, state), lambda start, answers: parts.update({start: answers[0]})
    )
    return np.concatenate([parts[start] for start in sorted(parts)]).tolist()


def states_of(source: Any, method: Any) -> list[Any]:
    """The states of a fit, step by step."""
    return [step.state for step in iterate(source, method)]


def trace(source: Any, penalty: float, **parameters: Any) -> list[dict[str, Any]]:
    """All that a fit yields but the seconds, step by step, to the byte."""
    return [
        contents(step.state) | {"end": step.converged}
        for step in iterate(source, Method(penalty, **parameters))
    ]


def contents(state: Any) -> dict[str, Any]:
    """The fields of a state, arrays as bytes."""
    return {
        key: value.tobytes() if value.ndim else value.item()
        for key, value in values_of(state).items()
    }


@st.composite
def graphs(draw, nodes=(2, 12), loops=True, isolated=True):
    """(n, n) symmetric weights of links, small integers, so that sums are exact; some nodes without links."""
    n, rng = draw(st.integers(*nodes)), np.random.default_rng(draw(seeds))
    linked = rng.random((n, n)) < draw(st.sampled_from([0.3, 0.8]))
    weights = np.triu(rng.integers(1, 5, (n, n)) * linked, int(not loops))
    graph = (weights + np.triu(weights, 1).T).astype(np.float64)
    if isolated and draw(st.booleans()):
        graph[-1] = graph[:, -1] = 0.0
    if not graph[: n - 1].any():
        graph[0, 1] = graph[1, 0] = 1.0
    return graph


def cut_cost(graph, labels, penalty, normalized):
    """Cut + penalty * k, by the reference."""
    k = len(set(labels[labels >= 0].tolist()))
    return reference.cut_of(graph.tolist(), labels.tolist(), normalized) + penalty * k


def reduced(reduction, rows, weights=None, height=16):
    """Reduce rows in blocks of some height, one after the other."""
    blocks = [
        Block(
            start,
            rows[start : start + height],
            None if weights is None else weights[start : start + height],
        )
        for start in range(0, rows.shape[0], height)
    ]
    found = reduction.chunk(blocks[0])
    for block in blocks[1:]:
        found = reduction.combine(found, reduction.chunk(block))
    return found


def by_definition(rows, centers):
    """Squared distances, (n, k): the float64 sums over the columns in order."""
    columns = zip(rows.astype(np.float64).T, centers.T, strict=True)
    return sum((values[:, np.newaxis] - middles) ** 2 for values, middles in columns) + 0.0
