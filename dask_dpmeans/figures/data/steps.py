"""The steps of a fit."""

from dataclasses import fields
from typing import NamedTuple

import numpy as np

from dask_dpmeans.engine.history import MOVES, Record
from dask_dpmeans.errors import InputError
from dask_dpmeans.figures.data.columns import Model, attribute
from dask_dpmeans.kernels.block import Float64Array, Int64Array


class History(NamedTuple):
    """Results of the s steps of a fit."""

    objectives: Float64Array
    """(s,), objective J after each step."""
    n_clusters: Int64Array
    """(s,), number of clusters k after each step."""
    changes: dict[str, Int64Array]
    """(s,) counts of births, deaths and moves, by name; kinds that never happened are left out."""


def history(model: Model) -> History:
    """Return the results of the steps of a fit.

    Parameters
    ----------
    model : a fitted estimator with `history_`, or a list of `dask_dpmeans.engine.history.Record`
    """
    if isinstance(model, list) and all(isinstance(record, Record) for record in model):
        records = model
    else:
        records = attribute(model, "history_", "steps")
    if not records:
        raise InputError("the history has no steps: fit first")
    columns = {
        field.name: np.array([getattr(record, field.name) for record in records])
        for field in fields(Record)
    }
    changes = {name: columns[name] for name in ("births", "deaths", *MOVES) if columns[name].any()}
    return History(columns["objective"], columns["n_clusters"], changes)
