"""Whether a parameter is what it has to be: one rule for all of them.

A number is a `numbers.Real`, so that NumPy's and a `fractions.Fraction` will do; True and False are none.  What comes
back is Python's own: a float32 would round each objective to its precision, and JSON takes no number of NumPy's.
"""

import math
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

import numpy as np

from dask_dpmeans.errors import InputError, InputTypeError

MOST = 2**63
"""Integers are below this, as those of NumPy are."""


def switch(name: str, value: Any) -> bool:
    """Return a parameter that is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def integer(name: str, value: Any, least: int = 1, or_none: str = "") -> int:
    """Return an integer that is not below `least`; `or_none` is what else the message says may be given."""
    found = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else least - 1
    if found < least:
        raise InputError(f"{name} must be an integer >= {least}{or_none}, got {shown(value)}")
    if found >= MOST:
        raise InputError(f"{name} must be an integer below 2**63, got {shown(value)}")
    return found


def number(name: str, value: Any, condition: str = "> 0", or_none: str = "") -> float:
    """Return a finite number that is ``> 0``, or ``>= 0``, or with the condition ``""`` any."""
    found = as_float(value)
    fits = {"> 0": found > 0, ">= 0": found >= 0, "": True}[condition]
    if not (math.isfinite(found) and fits):
        wanted = " ".join(filter(None, ("a finite number", condition)))
        raise InputError(f"{name} must be {wanted}{or_none}, got {shown(value)}")
    return found


def choice(name: str, value: Any, among: Collection[str]) -> str:
    """Return one of some names."""
    if not (isinstance(value, str) and value in among):
        raise InputError(f"{name} must be one of {', '.join(map(repr, among))}, got {shown(value)}")
    return str(value)


def instance(name: str, value: Any, kind: type, found_by: str) -> None:
    """Refuse what is of another class than the one that a function of ours gives."""
    if not isinstance(value, kind):
        raise InputError(f"{name} must be a {kind.__name__}, as {found_by} gives, got {shown(value)}")


def no_matrix(name: str, data: Any) -> None:
    """Refuse a `numpy.matrix`, as scikit-learn does: what it is cut into has two dimensions again."""
    if isinstance(data, np.matrix):
        raise InputTypeError(f"{name} must be no numpy.matrix, which is not supported: pass np.asarray({name})")


def as_float(value: Any) -> float:
    """Return a number as a float; NaN for what is none, or lies beyond all floats."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def shown(value: Any, most: int = 100) -> str:
    """Return the `repr` of a value, in one line and cut where it is long."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # of an integer of more digits than Python prints
        text = f"a {type(value).__name__} of more than 4,300 digits"
    return text if len(text) <= most else f"{text[:most]}..."
