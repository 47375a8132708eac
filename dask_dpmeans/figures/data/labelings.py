"""Labelings of the same rows: the flows between their clusters, and what became of each cluster."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from string import ascii_uppercase
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from dask_dpmeans.checks import describe_value
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import BoolArray, Int64Array
from dask_dpmeans.kernels.keyed_sums import rank_numbers
from dask_dpmeans.kernels.labelings import LabelPairCounts, LabelPairs, count_label_pairs
from dask_dpmeans.sources.row_array import RowArray

TOGETHER = 2**20
"""Rows that are counted at once, or a stored chunk if it has more.  Of 40,000,000 rows in memory of
60 MB, pairs were counted in 2.3 seconds of one core."""
MOST = len(ascii_uppercase)
"""Labelings that are compared at once: each has a letter."""
SAME = 0.95
"""Clusters with at least this Jaccard index are the same one."""
NOISE = -1
"""Label of the rows without a cluster, which count as a class of their own."""


def letters(number: int) -> list[str]:
    """Return the names of labelings without one: A, B, C."""
    return list(ascii_uppercase[:number])


def cluster_name(cluster: int) -> str:
    """Return a cluster's number, or "noise"."""
    return "noise" if cluster == NOISE else str(cluster)


@dataclass(frozen=True)
class Flows:
    """Rows of each cluster of a labeling in each cluster of another, for all pairs of labelings."""

    n_rows: int
    sizes: list[dict[int, int]]
    """Rows of each cluster, for each labeling; the largest clusters first."""
    pairs: dict[tuple[int, int], LabelPairs]
    """Rows of each pair of labels, for labelings i < j."""


def flows(labelings: Sequence[ArrayLike | RowArray]) -> Flows:
    """Count the rows in each pair of clusters of labelings of the same rows, chunk by chunk.

    Parameters
    ----------
    labelings : two or more labelings, (n,) integers
        NumPy, Dask or Zarr arrays with any chunks.  Labels are between -2**53 and 2**53; -1 is a
        label like any other.  A chunk of each is in memory at a time.

    Raises
    ------
    InputError
        Labels are not integers, or the arrays differ in length.
    """
    listed = isinstance(labelings, Sequence) and not isinstance(labelings, str)
    if not (listed and 2 <= len(labelings) <= MOST):
        shown = describe_value(labelings)
        raise InputError(f"labelings must be a list of 2 to {MOST} arrays, got {shown}")
    opened = [_open_labeling(labels, number) for number, labels in enumerate(labelings)]
    lengths = [labels.shape[0] for labels in opened]
    if len(set(lengths)) > 1:
        counts = ", ".join(f"{length:,}" for length in lengths)
        raise InputError(f"labelings must be of the same rows, got {counts} labels")
    pairs: dict[tuple[int, int], LabelPairs] = {}
    for parts in _parts(opened):
        for i, j in combinations(range(len(parts)), 2):
            found = count_label_pairs(parts[i], parts[j])
            pairs[i, j] = (
                LabelPairCounts().combine(pairs[i, j], found) if (i, j) in pairs else found
            )
    sizes = [_sizes(pairs[0, 1].first, pairs[0, 1].counts)]
    sizes += [_sizes(pairs[0, j].second, pairs[0, j].counts) for j in range(1, len(opened))]
    return Flows(lengths[0], sizes, pairs)


def _open_labeling(labels: ArrayLike | RowArray, number: int) -> RowArray:
    found = cast(RowArray, labels if hasattr(labels, "shape") else np.asarray(labels))
    if found.dtype.kind not in "iu" or len(found.shape) != 1 or not found.shape[0] > 0:
        held = f"{found.dtype} of shape {found.shape}"
        raise InputError(f"labelings[{number}] must be (n,) integers, n > 0 known, got {held}")
    return found


def _parts(opened: list[RowArray]) -> Iterator[list[Int64Array]]:
    """Yield the labels of runs of rows, of whole chunks where the chunks of all are alike."""
    heights = [np.max(getattr(labels, "chunks", ((1,),))[0]) for labels in opened]
    chunk = int(max(heights))
    step = chunk * max(1, TOGETHER // chunk)
    for start in range(0, opened[0].shape[0], step):
        yield [np.asarray(each[start : start + step]).astype(np.int64) for each in opened]


def _sizes(labels: Int64Array, counts: Int64Array) -> dict[int, int]:
    clusters, ranks = rank_numbers(labels)
    rows = np.zeros(len(clusters), np.int64)
    np.add.at(rows, ranks, counts)
    order = np.argsort(-rows, kind="stable")
    return dict(zip(clusters[order].tolist(), rows[order].tolist(), strict=True))


# What became of the clusters


class Change(NamedTuple):
    """Clusters of one labeling, and what became of them in another."""

    kind: str
    """"stayed", "moved", "split", "merged", "regrouped", "scattered" or "gathered"."""
    before: list[int]
    """The clusters of the first labeling, the largest first; none if "gathered"."""
    after: list[int]
    """The clusters of the second labeling; none if "scattered"."""
    rows: int
    """Rows in any of them."""
    jaccard: float
    """Rows in clusters of both labelings, divided by `rows`."""


def changes(found: Flows, first: int = 0, second: int = 1) -> list[Change]:
    """Return what became of the clusters of a labeling, the changes of most rows first.

    A cluster and one of the other labeling belong together if one of them has more than half of
    the rows of the other (as transitions of clusters in Spiliopoulou et al. 2006, MONIC).  What
    belongs together is one change: one cluster and one are "stayed" from a Jaccard index of .95
    on, else "moved"; one and several are a "split", several and one "merged", several and several
    "regrouped".  A cluster without any is "scattered", or in the second labeling "gathered".
    """
    sizes, pairs = (found.sizes[first], found.sizes[second]), found.pairs[first, second]
    before, after = (np.array(list(each)) for each in sizes)
    rows = [np.array(list(each.values())) for each in sizes]
    left, right = _places(before, pairs.first), _places(after, pairs.second)
    strong = (2 * pairs.counts > rows[0][left]) | (2 * pairs.counts > rows[1][right])
    parts = _components(left, right, strong, (len(before), len(after)))
    n_parts, of_before, of_after = parts
    inside = np.zeros(n_parts, np.int64)
    within = of_before[left] == of_after[right]
    np.add.at(inside, of_before[left[within]], pairs.counts[within])
    either = -inside
    np.add.at(either, of_before, rows[0])
    np.add.at(either, of_after, rows[1])
    members = _members(before, of_before, n_parts), _members(after, of_after, n_parts)
    each = [_change(*four) for four in zip(*members, inside.tolist(), either.tolist(), strict=True)]
    return sorted(each, key=lambda change: -change.rows)


def _places(labels: Int64Array, wanted: Int64Array) -> Int64Array:
    """Return the place of each wanted label, (m,), among different labels, (k,)."""
    order = np.argsort(labels)
    return np.asarray(order[np.searchsorted(labels, wanted, sorter=order)], np.int64)


def _components(
    left: Int64Array, right: Int64Array, strong: BoolArray, shape: tuple[int, int]
) -> tuple[int, Int64Array, Int64Array]:
    """Return how many parts strong links leave, and the part of each cluster on both sides."""
    ends = left[strong], right[strong] + shape[0]
    links = coo_array((np.ones(len(ends[0])), ends), shape=(sum(shape), sum(shape)))
    n_parts, parts = connected_components(links, directed=False)
    return int(n_parts), parts[: shape[0]], parts[shape[0] :]


def _members(labels: Int64Array, parts: Int64Array, n_parts: int) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(n_parts)]
    for label, part in zip(labels.tolist(), parts.tolist(), strict=True):
        found[part].append(label)
    return found


def _change(before: list[int], after: list[int], inside: int, either: int) -> Change:
    jaccard = inside / either
    several = len(before) > 1, len(after) > 1
    kinds = {(False, True): "split", (True, False): "merged", (True, True): "regrouped"}
    kind = kinds.get(several, "stayed" if jaccard >= SAME else "moved")
    if not after:
        kind = "scattered"
    if not before:
        kind = "gathered"
    return Change(kind, before, after, either, jaccard)
