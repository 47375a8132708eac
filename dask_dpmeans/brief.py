"""A `repr` of a result in a line or two: numbers as they are, arrays by their types and shapes."""

from collections.abc import Sized
from typing import Any

import numpy as np

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
