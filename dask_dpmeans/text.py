"""Text for people: numbers with their nouns, columns of figures, short reprs."""

from collections.abc import Sized
from typing import Any

import numpy as np


def counted(number: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "shard"), counted(1000, "shard")
    ('1 shard', '1,000 shards')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def figures(values: Any, digits: int = 6) -> list[str]:
    """Numbers of one column: whole ones as counts are, with separators; where one is not, all to so many digits.

    >>> figures([1055.0, 3.0]), figures([1055.372, 3.0])
    (['1,055', '3'], ['1055.37', '3'])
    """
    numbers = np.asarray(values, np.float64).tolist()
    whole = all(number.is_integer() and abs(number) < MOST_WHOLE for number in numbers)
    return [f"{number:,.0f}" if whole else f"{number:.{digits}g}" for number in numbers]


MOST_WHOLE = 10.0**12
"""Larger numbers are written to some digits, be they whole."""


MOST = 60
"""Characters of a value that is no array."""


def brief(result: Any) -> str:
    """The `repr` of a dataclass or a named tuple.

    >>> from typing import NamedTuple
    >>> class Found(NamedTuple):
    ...     penalty: float
    ...     penalties: np.ndarray
    ...     tried: tuple
    >>> brief(Found(4.0, np.zeros((3, 2)), ((1.0, 3),) * 99))
    'Found(penalty=4.0, penalties=<float64 (3, 2)>, tried=<tuple of 99>)'
    """
    names = getattr(result, "_fields", None) or getattr(result, "__dataclass_fields__", {})
    values = ", ".join(f"{name}={_brief(getattr(result, name))}" for name in names)
    return f"{type(result).__name__}({values})"


def _brief(value: Any) -> str:
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return repr(value.item()) if isinstance(value, np.generic) else f"<{value.dtype} {value.shape}>"
    text = repr(value) if not isinstance(value, Sized) or isinstance(value, str) or len(value) <= MOST else ""
    if text and len(text) <= MOST:
        return text
    return f"<{type(value).__name__} of {len(value):,}>" if isinstance(value, Sized) else f"{text[:MOST]}..."
