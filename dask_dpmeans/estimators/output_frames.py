"""The check of scikit-learn's `set_output` for rows that are not in memory."""

from typing import Any

from sklearn import get_config

from dask_dpmeans import sources
from dask_dpmeans.errors import InputError


def check_output(model: Any, X: object) -> None:
    """Refuse a data frame of the distances of lazy rows X: all of them would be computed."""
    own = getattr(model, "_sklearn_output_config", {}).get("transform")
    wanted = own or get_config()["transform_output"]
    if wanted == "default" or not sources.is_lazy(sources.unwrap(X, "X")):
        return
    kind = f"{type(X).__module__}.{type(X).__name__}"
    rows = "X.compute()" if hasattr(X, "compute") else "X[:]"
    raise InputError(
        f'set_output(transform="{wanted}") makes a data frame in memory, and X is a {kind}, whose '
        f'distances are lazy: call set_output(transform="default") first, or pass {rows}'
    )
