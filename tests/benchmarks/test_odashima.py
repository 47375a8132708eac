"""The table of Odashima et al. 2016 at a small size: its lines are there, and its costs are those of the rows."""

from pathlib import Path

import numpy as np
import odashima
import pytest
from click.testing import CliRunner

from dask_dpmeans import reference

SMALL = odashima.synthetic(200, 3)


def cost(rows: list[list[float]], centers: list[list[float]], penalty: float) -> float:
    """Each row at its nearest center, and all centers."""
    return sum(reference.nearest_center(row, centers)[1] for row in rows) + penalty * len(centers)


def test_costs_are_those_of_the_papers_algorithms() -> None:
    found = odashima.results(SMALL, 4.0, [3])
    (rows,) = (ordered.tolist() for ordered in odashima.orders(SMALL, [3]))
    boxes = reference.split_dp_means(rows, 4.0)
    centers, weights = [box.center for box in boxes], [box.weight for box in boxes]
    wanted = {
        odashima.OD: reference.online_dp_means(rows, 4.0).centers,
        odashima.SD: centers,
        odashima.SMD: reference.merge_dp_means(centers, weights, 4.0).centers,
    }
    for name, expected in wanted.items():
        assert found[name][0].k == len(expected)
        assert found[name][0].cost == pytest.approx(cost(rows, expected, 4.0))


def test_orders_are_random_orders_of_the_same_rows() -> None:
    first, second = odashima.orders(SMALL, range(2))
    assert first.tolist() != second.tolist()
    assert sorted(first.tolist()) == sorted(second.tolist()) == sorted(SMALL.tolist())


def test_the_table_has_a_line_for_each_method() -> None:
    found = odashima.results(SMALL, 4.0, range(2))
    each = odashima.lines(found, {odashima.OD: "1.00 ± 0"})
    assert [line.what for line in each] == [odashima.OD, odashima.SD, odashima.SMD]
    assert [line.target for line in each] == ["published 1.00 ± 0", "", ""]


def test_every_method_has_a_published_cost_for_every_penalty() -> None:
    assert list(odashima.PUBLISHED) == list(odashima.methods(1.0))
    assert {len(values) for values in odashima.PUBLISHED.values()} == {len(odashima.PENALTIES)}


def test_the_command_prints_a_block_for_each_penalty(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", X=SMALL)
    for path, title in (
        (tmp_path / "rows.npz", "rows.npz"),
        (tmp_path / "nowhere.npz", "a normal distribution"),
    ):
        arguments = ["--data", str(path), "--rows", "150", "--orders", "1"]
        result = CliRunner().invoke(odashima.main, arguments, catch_exceptions=False)
        first, *blocks = result.output.splitlines()
        assert first == f"150 rows of {title}; cost in 1e5"
        assert [line for line in blocks if line.startswith("penalty")] == [
            f"penalty {penalty:g}, 1 orders" for penalty in odashima.PENALTIES
        ]
        assert len(blocks) == 16
        assert "published" not in result.output
