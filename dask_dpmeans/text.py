"""Text for people: numbers with nouns, columns of numbers, short reprs."""

from collections.abc import Sized

import numpy as np
from numpy.typing import ArrayLike

MOST_WHOLE = 10.0**12
"""Larger numbers are written to some digits, even if they are whole."""
MOST = 60
"""Characters of a value in a repr."""


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> format_count(1, "shard"), format_count(1000, "shard")
    ('1 shard', '1,000 shards')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


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
    if isinstance(value, Sized) and not isinstance(value, str) and len(value) > MOST:
        return f"<{type(value).__name__} of {len(value):,}>"
    text = repr(value)
    if len(text) > MOST and isinstance(value, Sized):
        return f"<{type(value).__name__} of {len(value):,}>"
    return text if len(text) <= MOST else f"{text[:MOST]}..."
