"""The table of the stability of clusters says what overlaps and what lies apart.  Never a time."""

import re

import cluster_stability as benchmark
import pytest
from click.testing import CliRunner


@pytest.mark.filterwarnings("ignore:.*Nearly as good")
def test_stability_grows_with_the_distance_and_separate_clusters_have_all_of_it() -> None:
    options = ["--rows", "1000", "--columns", "2", "--draws", "1"]
    result = CliRunner().invoke(benchmark.main, options, catch_exceptions=False)
    pairs, cases = (table.splitlines() for table in result.stdout.strip().split("\n\n"))
    known, found = (re.findall(r"\d?\.\d\d", line) for line in pairs[2:])
    assert len(known) == len(benchmark.DISTANCES)
    pair, apart = [float(each) for each in found[::2]], [float(each) for each in found[1::2]]
    assert pair == sorted(pair)
    assert pair == pytest.approx([float(each) for each in known], abs=0.06)
    assert min(apart) >= 0.95
    assert 0.8 < pair[2] < 0.9
    stability = {line.split(" | ")[0][2:]: line.split(" | ")[1] for line in cases[2:]}
    assert list(stability) == list(benchmark.CASES)
    lowest = [float(each.split(" ")[0]) for each in stability.values()]
    assert max(lowest[:2]) < 0.65
    assert min(lowest[4:]) >= 0.95
    assert [each.split(" ")[1] for each in stability.values()][:2] == ["(2)", "(2)"]


def test_a_cell_without_five_clusters_says_none() -> None:
    assert benchmark.cell([None]) == "none"
