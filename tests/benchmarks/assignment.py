"""One assignment of rows to centers, against the bare matrix product of its shapes and scikit-learn's Lloyd iteration.

All in float32 and one thread, in seconds of the processor, which other work on the machine disturbs least.  The
assignment is `nearest` on the blocks that the library cuts, near-ties decided exactly, the centers prepared anew each
time; the whole `scan` (squared distances, moments and objecting rows besides) stands beside it.  The product writes
the n x k scores into an array that is there already.  A Lloyd iteration is the time of a fit of four iterations less
that of a fit of one, over the iterations between: what a fit does once (checks, copies, norms, last labels) falls out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from time import process_time

import click
import numpy as np
import numpy.typing as npt
from ratios import Line, Times, interleaved, ratio_line, seconds_line, table, timed
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from dask_dpmeans.engine.plan import block_height, merge_tree
from dask_dpmeans.kernels.assign import Scan, merge_scans, scan
from dask_dpmeans.kernels.block import Block
from dask_dpmeans.kernels.distance import Centers, nearest
from dask_dpmeans.sources.shards import Prepare, Shard

PENALTY = 1e9
"""No row objects: a pass in which a sweep ends."""
LLOYD_ITERATIONS = (1, 4)

GEMM, NEAREST, SCAN, LLOYD = "bare GEMM", "nearest", "scan", "Lloyd iteration"


@dataclass(frozen=True)
class Shape:
    """A problem, and what the assignment has to reach on it."""

    n: int
    d: int
    k: int
    most_gemm: float
    """The most times the matrix product that `nearest` may take."""
    least_lloyd: float
    """The least times that a Lloyd iteration must take of what `nearest` takes; 0 to leave it out."""

    def __str__(self) -> str:
        return f"n={self.n:,} d={self.d} k={self.k}"


SHAPES = (
    Shape(200_000, 16, 512, 1.6, 2.0),
    Shape(100_000, 128, 1000, 1.15, 1.3),
    Shape(50_000, 3, 16_384, 0.05, 0.0),
    Shape(50_000, 16, 16_384, 0.3, 0.0),
)
GEMM_BYTES = 2**29
"""Memory of scores, about; more rows go through the product in parts."""


@dataclass(frozen=True)
class Problem:
    """Rows and centers."""

    rows: npt.NDArray[np.float32]
    """(n, d), without structure, where near-ties are the most frequent."""
    centers: npt.NDArray[np.float64]
    """(k, d), other rows of the same distribution."""

    @classmethod
    def of(cls, shape: Shape, seed: int = 0) -> "Problem":
        """Rows and centers of one normal distribution."""
        random = np.random.default_rng([seed, shape.d])
        rows = random.standard_normal((shape.n + shape.k, shape.d), np.float32)
        return cls(rows[: shape.n], rows[shape.n :].astype(np.float64))

    @classmethod
    def of_vectors(cls, path: str, n: int, k: int) -> "Problem":
        """Rows and centers drawn from the vectors, (N, d), of an `.npy` file."""
        vectors = np.load(path, mmap_mode="r")
        which = np.random.default_rng(0).permutation(len(vectors))[: n + k]
        drawn = np.asarray(vectors[np.sort(which)], np.float32)[which.argsort().argsort()]
        return cls(np.ascontiguousarray(drawn[k:]), drawn[:k].astype(np.float64))

    def blocks(self) -> Iterator[Block]:
        """The rows, as a task of the library goes through them."""
        n, d = self.rows.shape
        height = block_height(d)
        shard = Shard(0, self.rows, None)
        return shard.blocks(Prepare(self.rows.dtype), height, range(-(-n // height)))

    def product(self, factor: npt.NDArray[np.float32], scores: npt.NDArray[np.float32]) -> None:
        """The scores of all rows, (n, k), one part after the other."""
        for start in range(0, len(self.rows), len(scores)):
            part = self.rows[start : start + len(scores)]
            np.matmul(part, factor, out=scores[: len(part)])

    def nearest(self) -> npt.NDArray[np.intp]:
        """The label of every row."""
        centers = Centers(self.centers)
        return np.concatenate(
            [nearest(block.rows, centers, block.scratch) for block in self.blocks()]
        )

    def scan(self) -> Scan:
        """The answer of a pass."""
        centers = Centers(self.centers)
        answers = (scan(block, centers, PENALTY) for block in self.blocks())
        return merge_tree(answers, lambda left, right: merge_scans(left, right, PENALTY))

    def lloyd(self, iterations: int) -> KMeans:
        """A fit of so many Lloyd iterations."""
        start = self.centers.astype(np.float32)
        means = KMeans(
            len(start), init=start, n_init=1, max_iter=iterations, tol=0, algorithm="lloyd"
        )
        return means.fit(self.rows)


def lloyd_seconds(problem: Problem) -> float:
    """What one Lloyd iteration takes."""
    done, seconds = [], []
    for iterations in LLOYD_ITERATIONS:
        started = process_time()
        done.append(problem.lloyd(iterations).n_iter_)
        seconds.append(process_time() - started)
    return (seconds[1] - seconds[0]) / (done[1] - done[0])


def compare(shape: Shape, repeats: int, problem: Problem | None = None) -> Times:
    """Seconds of the competitors on a problem, by default one of this shape without structure."""
    problem = problem or Problem.of(shape)
    factor = np.ascontiguousarray(problem.centers.T, np.float32)
    scores = np.empty((min(shape.n, GEMM_BYTES // (4 * shape.k)), shape.k), np.float32)
    competitors = {
        GEMM: timed(lambda: problem.product(factor, scores), process_time),
        NEAREST: timed(problem.nearest, process_time),
        SCAN: timed(problem.scan, process_time),
    }
    if shape.least_lloyd:
        competitors[LLOYD] = lambda: lloyd_seconds(problem)
    with threadpool_limits(1):
        return interleaved(competitors, repeats)


def lines(shape: Shape, times: Times) -> list[Line]:
    """What the table says of a problem."""
    found = [
        *(seconds_line(times, name) for name in times),
        ratio_line(times, NEAREST, GEMM, most=shape.most_gemm),
        ratio_line(times, SCAN, GEMM),
    ]
    if shape.least_lloyd:
        found.append(ratio_line(times, LLOYD, NEAREST, least=shape.least_lloyd))
        found.append(ratio_line(times, LLOYD, SCAN))
    return found


@click.command(help=__doc__)
@click.option("--rows-fraction", default=1.0, show_default=True, help="Fraction of the rows.")
@click.option("--repeats", default=9, show_default=True, help="Rounds.")
@click.option("--vectors", help="An .npy file of vectors: some are the rows, 16,384 the centers.")
def main(rows_fraction: float, repeats: int, vectors: str | None) -> None:
    """All problems, or vectors alone."""
    if vectors is not None:
        problem = Problem.of_vectors(vectors, int(20_000 * rows_fraction), 16_384)
        shape = Shape(*problem.rows.shape, len(problem.centers), 0.6, 0.0)
        title = f"{shape}, float32, one thread"
        click.echo(table(title, lines(shape, compare(shape, repeats, problem))))
        return
    for full in SHAPES:
        n = max(2 * full.k, int(full.n * rows_fraction))
        shape = Shape(n, full.d, full.k, full.most_gemm, full.least_lloyd)
        click.echo(table(f"{shape}, float32, one thread", lines(shape, compare(shape, repeats))))


if __name__ == "__main__":
    main()
