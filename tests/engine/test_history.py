"""Histories: records of steps, from states and back from tables."""

from dataclasses import fields, replace

import numpy as np

from dask_dpmeans.engine.history import DTYPES, FIGURES, History, Record
from dask_dpmeans.methods.dpmeans import batch
from dask_dpmeans.sources import as_source

ROWS = np.array([[0.0], [1.0], [9.0]])


def a_record(**figures: float) -> Record:
    source = as_source(ROWS)
    method = batch.Method(4.0)
    return replace(Record.of(method.step(source, method.init(source)), len(ROWS), 0.5), **figures)


def test_a_record_holds_the_figures_of_a_state() -> None:
    found = a_record()
    assert (found.n_clusters, found.births, found.deaths, found.seconds) == (2, 2, 1, 0.5)
    assert (found.merges, found.swaps, found.split_gain, found.n_local_clusters) == (0, 0, 0.0, 0)


def test_a_table_gives_back_the_history() -> None:
    history = History([a_record(), a_record(merges=3, merge_gain=0.1)])
    table = history.table()
    assert table.shape == (2, len(fields(Record)))
    again = History.from_table(table)
    assert again == history
    assert {name: type(getattr(again[1], name)) for name in ("merges", "merge_gain")} == {
        "merges": int,
        "merge_gain": float,
    }


def test_columns_have_the_names_and_types_of_the_figures() -> None:
    columns = History([a_record()]).columns()
    assert tuple(columns) == FIGURES
    assert all(column.dtype == DTYPES[name] for name, column in columns.items())


def test_a_rejected_step_adds_its_passes_and_no_record() -> None:
    history = History([a_record(passes=1.0)])
    later = a_record(passes=3.0, seconds=9.0)
    assert history.after(later) == [*history, later]
    assert history.after(later, committed=False) == [replace(history[0], passes=3.0)]
    assert len(history) == 1
