"""Checks of parameters.

A number is a `numbers.Real`, so NumPy numbers and `fractions.Fraction` are accepted; True and False
are not numbers.  The checks return Python numbers: with float32, each objective would be rounded,
and JSON accepts no NumPy numbers.
"""

import math
from collections.abc import Collection
from numbers import Integral, Real

import numpy as np

from dask_dpmeans.errors import InputError, InputTypeError

MOST = 2**63
"""Integers must be less than this, as in NumPy."""


def switch(name: str, value: object) -> bool:
    """Return a parameter that is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False, got {describe_value(value)}")
    return bool(value)


def integer(name: str, value: object, least: int = 1, or_none: str = "") -> int:
    """Return an integer >= `least`; the message about others ends with `or_none`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise InputError(
            f"{name} must be an integer >= {least}{or_none}, got {describe_value(value)}"
        )
    if int(value) >= MOST:
        raise InputError(f"{name} must be an integer below 2**63, got {describe_value(value)}")
    return int(value)


def number(name: str, value: object, condition: str = "> 0", or_none: str = "") -> float:
    """Return a finite number that meets a condition: ``"> 0"``, ``">= 0"``, or ``""`` for any."""
    found = as_float(value)
    holds = {"> 0": found > 0, ">= 0": found >= 0, "": True}[condition]
    if not (math.isfinite(found) and holds):
        wanted = f"a finite number {condition}".rstrip()
        raise InputError(f"{name} must be {wanted}{or_none}, got {describe_value(value)}")
    return found


def choice(name: str, value: object, among: Collection[str]) -> str:
    """Return one of some names."""
    if not (isinstance(value, str) and value in among):
        raise InputError(
            f"{name} must be one of {', '.join(map(repr, among))}, got {describe_value(value)}"
        )
    return str(value)


def instance(name: str, value: object, kind: type, found_by: str) -> None:
    """Refuse a value that is not of the class that the function `found_by` returns."""
    if not isinstance(value, kind):
        wanted = f"a {kind.__name__}, as {found_by} returns it"
        raise InputError(f"{name} must be {wanted}, got {describe_value(value)}")


def no_matrix(name: str, data: object) -> None:
    """Refuse a `numpy.matrix`, as scikit-learn does: a part of it always has two dimensions."""
    if isinstance(data, np.matrix):
        raise InputTypeError(
            f"{name} must be no numpy.matrix, which is not supported: pass np.asarray({name})"
        )


def as_float(value: object) -> float:
    """Return a number as a float; NaN if it is not a number or too large."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def describe_value(value: object, most: int = 100) -> str:
    """Return the `repr` of a value in one line, cut to `most` characters."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # an integer with more digits than Python prints
        text = f"a {type(value).__name__} of more than 4,300 digits"
    return text if len(text) <= most else f"{text[:most]}..."
