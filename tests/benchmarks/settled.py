"""A pass in which few centers have moved since the last one, against a full pass and the bare matrix product.

Rows and centers are those of `assignment`, without structure, where bounds are the weakest.  From round to round a few
of the centers go forth and back.  The settled pass keeps what it knows of its blocks; the full one knows nothing.
"""

from time import process_time

import click
import numpy as np
from assignment import GEMM, PENALTY, Problem, Shape
from ratios import Line, Times, interleaved, ratio_line, seconds_line, table, timed
from threadpoolctl import threadpool_limits

from dask_dpmeans.engine.plan import block_height, merge_tree
from dask_dpmeans.kernels.assign import Scan, merge_scans, scan
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.sources.shards import Prepare, Shard

SHAPES = (
    Shape(200_000, 16, 512, 0.3, 0.0),
    Shape(200_000, 16, 2048, 0.3, 0.0),
    Shape(200_000, 2, 512, 0.3, 0.0),
)
MOVED = 5
"""Centers that move."""
STEP = 0.1
"""How far they do, over the standard deviation of a column."""

SETTLED, FULL = "settled pass", "full pass"


class Moving:
    """Passes over the same rows, against centers of which a few move each time."""

    def __init__(self, problem: Problem, *, settled: bool) -> None:
        self.problem = problem
        self.settled = settled
        self.shard = Shard(0, problem.rows, None)
        self.passes = 0

    @property
    def centers(self) -> Centers:
        """(k, d), of the next pass."""
        values = self.problem.centers.copy()
        values[:MOVED] += STEP * (self.passes % 2)
        return Centers(values)

    def __call__(self) -> Scan:
        """The answer of a pass."""
        n, d = self.problem.rows.shape
        height, centers = block_height(d), self.centers
        shard = self.shard if self.settled else Shard(0, self.problem.rows, None)
        blocks = shard.blocks(Prepare(self.problem.rows.dtype), height, range(-(-n // height)))
        self.passes += 1
        answers = (scan(block, centers, PENALTY) for block in blocks)
        return merge_tree(answers, lambda left, right: merge_scans(left, right, PENALTY))


def compare(shape: Shape, repeats: int) -> Times:
    """Seconds of the competitors on a problem."""
    problem = Problem.of(shape)
    settled, full = Moving(problem, settled=True), Moving(problem, settled=False)
    for _ in range(2):  # the centers are known, then the bounds
        settled()
    factor = np.ascontiguousarray(problem.centers.T, np.float32)
    scores = np.empty((shape.n, shape.k), np.float32)
    competitors = {
        GEMM: timed(lambda: np.matmul(problem.rows, factor, out=scores), process_time),
        FULL: timed(full, process_time),
        SETTLED: timed(settled, process_time),
    }
    with threadpool_limits(1):
        return interleaved(competitors, repeats)


def lines(shape: Shape, times: Times) -> list[Line]:
    """What the table says of a problem."""
    return [
        *(seconds_line(times, name) for name in times),
        ratio_line(times, SETTLED, FULL, most=shape.most_gemm),
        ratio_line(times, SETTLED, GEMM),
    ]


@click.command(help=__doc__)
@click.option("--rows-fraction", default=1.0, show_default=True, help="Fraction of the rows.")
@click.option("--repeats", default=9, show_default=True, help="Rounds.")
def main(rows_fraction: float, repeats: int) -> None:
    """All problems."""
    for full in SHAPES:
        shape = Shape(
            max(2 * full.k, int(full.n * rows_fraction)),
            full.d,
            full.k,
            full.most_gemm,
            full.least_lloyd,
        )
        click.echo(table(f"{shape}, float32, one thread", lines(shape, compare(shape, repeats))))


if __name__ == "__main__":
    main()
