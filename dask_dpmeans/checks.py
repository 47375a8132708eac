"""Checks of parameters, and how texts show values.

A number is a `numbers.Real`, so NumPy numbers and `fractions.Fraction` are accepted; True and False
are not numbers.  The checks return Python numbers: with float32, each objective would be rounded,
and JSON accepts no NumPy numbers.
"""

import math
from collections.abc import Collection, Iterable, Sized
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

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


def integer_or_none(name: str, value: object) -> int | None:
    """Return an integer >= 1, or None."""
    return None if value is None else integer(name, value, or_none=" or None")


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


MOST_WHOLE = 10.0**12
"""Larger numbers are written to some digits, even if they are whole."""
MOST_CHARACTERS = 60
"""Characters of a value in a repr."""
MOST_LISTED = 5
"""Names in an error, at most."""


def list_some(names: Iterable[object]) -> str:
    """Return names for an error, of more than five the first five.

    >>> list_some(["a", "b"]), list_some("abcdef")
    ('a, b', 'a, b, c, d, e, ...')
    """
    shown = list(map(str, names))
    more = ", ..." * (len(shown) > MOST_LISTED)
    return ", ".join(shown[:MOST_LISTED]) + more


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> format_count(1, "shard"), format_count(1000, "shard")
    ('1 shard', '1,000 shards')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def format_hundredths(number: float) -> str:
    """Return a number to two decimals, or to none if they are zeros.

    >>> format_hundredths(67.0), format_hundredths(4.5)
    ('67', '4.50')
    """
    return f"{number:,.2f}".removesuffix(".00")


def format_beside(number: float, limit: float, decimals: int) -> str:
    """Return a rounded number that is below a limit as the number itself is; no -0.

    >>> format_beside(0.797, 0.8, 2), format_beside(0.8, 0.8, 2), format_beside(2.96, 3.0, 1)
    ('0.79', '0.80', '2.9')
    >>> format_beside(-0.04, 3.0, 1)
    '0.0'
    """
    text = f"{number:z.{decimals}f}"
    if number < limit <= float(text):
        return f"{limit - 10.0**-decimals:.{decimals}f}"
    return text


def format_share(share: float) -> str:
    """Return a share in percent.

    >>> format_share(0.123), format_share(0.0123), format_share(0.000123), format_share(0.9999)
    ('12%', '1.2%', 'under 0.1%', 'over 99.9%')
    """
    percent = 100 * share
    if share in (0, 1):
        return f"{percent:.0f}%"
    if percent < 0.1:
        return "under 0.1%"
    if percent > 99.9:
        return "over 99.9%"
    return f"{percent:.0f}%" if 10 <= percent < 99.5 else f"{percent:.1f}%"


def format_column(values: ArrayLike, digits: int = 6) -> list[str]:
    """Format the numbers of a column, all whole with separators or all to some digits.

    >>> format_column([1055.0, 3.0]), format_column([1055.372, 3.0])
    (['1,055', '3'], ['1055.37', '3'])
    """
    numbers = np.asarray(values, np.float64).tolist()
    if all(number.is_integer() and abs(number) < MOST_WHOLE for number in numbers):
        return [f"{number:,.0f}" for number in numbers]
    return [f"{number:.{digits}g}" for number in numbers]


def short_repr(result: object) -> str:
    """Return the `repr` of a dataclass or a named tuple, with arrays and long values cut.

    >>> from typing import NamedTuple
    >>> class Found(NamedTuple):
    ...     penalty: float
    ...     penalties: np.ndarray
    ...     tried: tuple
    >>> short_repr(Found(4.0, np.zeros((3, 2)), ((1.0, 3),) * 99))
    'Found(penalty=4.0, penalties=<float64 (3, 2)>, tried=<tuple of 99>)'
    """
    names = getattr(result, "_fields", None) or getattr(result, "__dataclass_fields__", {})
    values = ", ".join(f"{name}={_brief(getattr(result, name))}" for name in names)
    return f"{type(result).__name__}({values})"


def _brief(value: object) -> str:
    if isinstance(value, np.generic):
        return repr(value.item())
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"<{value.dtype} {value.shape}>"
    if isinstance(value, Sized) and not isinstance(value, str) and len(value) > MOST_CHARACTERS:
        return f"<{type(value).__name__} of {len(value):,}>"
    text = repr(value)
    if len(text) > MOST_CHARACTERS and isinstance(value, Sized):
        return f"<{type(value).__name__} of {len(value):,}>"
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."


def spells_number(text: str) -> bool:
    """Return whether a text spells a number.

    >>> spells_number("1.5"), spells_number("Berlin")
    (True, False)
    """
    try:
        float(text)
    except ValueError:
        return False
    return True
