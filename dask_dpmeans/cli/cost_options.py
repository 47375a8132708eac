"""Options for prices, and for what a row costs at a center, each defined once."""

from typing import Any

import click

from dask_dpmeans.cli.choices import (
    AUTO,
    DIVERGENCES,
    LINKAGE_METRICS,
    METRICS,
    MISSING,
    MIXED,
    PLAIN,
)
from dask_dpmeans.cli.options import Decorator, choice, flag, number


def _divergence(_: click.Context, __: click.Parameter, text: str) -> str | dict[str, str]:
    """Return the name of a divergence, or the names by column of a text such as age=squared."""
    if "=" not in text:
        return text
    found: dict[str, str] = {}
    for part in text.split(","):
        column, equals, name = (each.strip() for each in part.rpartition("="))
        if not (column and equals and name):
            raise click.BadParameter(
                f"{part!r} is not a column and its divergence, such as color=categorical"
            )
        if column in found:
            raise click.BadParameter(f"{text!r} names the column {column!r} twice")
        found[column] = name
    return found


def _penalty(_: click.Context, __: click.Parameter, text: str) -> float | str:
    """Return the penalty of a text: a number, or "auto"."""
    if text == AUTO:
        return text
    try:
        return float(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a number or {AUTO}") from error


def number_or_auto(name: str, help: str, **settings: Any) -> Decorator:
    """Return an option for a penalty that may be "auto"."""
    return click.option(name, callback=_penalty, metavar="NUMBER|auto", help=help, **settings)


SEARCH = flag("--search", help="Read penalties as prices, and search for the lowest objective.")
COSINE = (
    "cosine compares directions: after --scale, rows are brought to unit length, and squared distances are "
    "2 (1 - cosine)."
)
METRIC = choice(
    "--metric",
    METRICS,
    "euclidean",
    f"{COSINE} haversine takes latitude and longitude in degrees: a penalty as a radius is in kilometers, as a "
    "price in square kilometers.",
)
LINKAGE_METRIC = choice("--metric", LINKAGE_METRICS, "euclidean", COSINE)
DIVERGENCE = click.option(
    "--divergence",
    default=PLAIN,
    show_default=True,
    callback=_divergence,
    metavar="NAME|COLUMN=NAME,...",
    help=f"What a row costs at a center, in all columns or in those that are named: {', '.join(DIVERGENCES)}; "
    f"{MIXED} is categorical for columns of categories and squared for others.",
)
MISSING_VALUES = choice(
    "--missing",
    MISSING,
    "error",
    "observed takes rows with missing values, and scales their costs up to all columns; unscaled does not scale.",
)
DISCOUNT = number(
    "--discount",
    0.0,
    "Fall of the price, for clusters of power-law sizes: cluster j costs --penalty less discount x log(j), and at "
    "least a tenth of it.",
)
OUTLIER_PENALTY = click.option(
    "--outlier-penalty",
    type=float,
    help="Price of an outlier, with --search: a row that costs more at every center has label -1.",
)
COSTS = METRIC, DIVERGENCE, MISSING_VALUES, DISCOUNT, OUTLIER_PENALTY
"""Options for what rows, clusters and outliers cost."""
