import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_dpmeans.kernels.numba_support import SHARE, UNIT, PastWork


@pytest.fixture(autouse=True, scope="module")
def loops():
    """These tests are about files alone."""


works = st.integers(0, 9 * UNIT)


@given(processes=st.lists(st.lists(works, max_size=4), max_size=4), work=works)
def test_whole_units_of_all_processes_are_known_to_the_next(tmp_path_factory, processes, work):
    """A process tells each time how much it has handled so far."""
    file = tmp_path_factory.mktemp("cache") / "loop.work"
    for told in processes:
        past = PastWork(file)
        for handled in sorted(told):
            past.keep(handled)
    units = sum(max(told, default=0) // UNIT for told in processes)
    assert PastWork(file).before == units * UNIT
    assert PastWork(file).with_present(work) == work + min(units * UNIT, SHARE * work)


def test_two_processes_add_at_once(tmp_path):
    first, second = PastWork(tmp_path / "loop.work"), PastWork(tmp_path / "loop.work")
    for handled in (UNIT, 3 * UNIT):
        first.keep(handled)
        second.keep(handled)
    assert PastWork(tmp_path / "loop.work").before == 6 * UNIT


def test_without_a_folder_nothing_is_known_nor_kept():
    past = PastWork(None)
    past.keep(5 * UNIT)
    assert past.with_present(UNIT) == UNIT


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    past = PastWork(tmp_path / "gone" / "loop.work")
    past.keep(5 * UNIT)
    assert PastWork(tmp_path / "gone" / "loop.work").before == 0
    (tmp_path / "loop.work").mkdir(mode=stat.S_IRWXU)
    PastWork(tmp_path / "loop.work").keep(5 * UNIT)


class GivenUp(PastWork):
    """Another thread gives the file up as soon as this one has seen it."""

    @property
    def file(self):
        seen, self.place = self.place, None
        return seen

    @file.setter
    def file(self, place):
        self.place = place


def test_a_file_that_another_thread_gives_up_is_no_error(tmp_path):
    GivenUp(tmp_path / "gone" / "loop.work").keep(5 * UNIT)
    GivenUp(tmp_path / "loop.work").keep(5 * UNIT)
    assert PastWork(tmp_path / "loop.work").before == 5 * UNIT
