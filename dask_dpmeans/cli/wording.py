"""Errors of the library in the words of the command line."""

import ast
import re
from collections.abc import Collection

from dask_dpmeans.flags import OPTIONS, flags

VALUE = r"'[^']*'|True|\{'[^{}]*\}"
"""A value of a parameter in a message."""
CALL = rf"(\w+(?:Means|Mixture))\((\w+)=({VALUE})\)"
"""An estimator with one parameter."""
ARGUMENT = rf"(?<![\w(])(\w+)=({VALUE})(?! or --)"
"""A parameter with its value."""
OTHER_CALL = r"[\w.]\([^()]*\)"
"""Python that is no advice about options."""
NAME = r"(?<![\w./'\"-])([a-z]+(?:_[a-z]+)+)(?![\w/'\"(=-])"
"""A parameter of several words."""
TOKEN = re.compile(rf"{CALL}|{OTHER_CALL}|{ARGUMENT}|{NAME}")


def in_options(message: str, known: Collection[str]) -> str:
    """Return a message with parameters as options, if their names in the command are `known`.

    >>> in_options("gap_tol needs effort='best'; see DPMeans(missing='observed')", {"gap_tol", "effort"})
    "--gap-tol needs --effort best; see DPMeans(missing='observed')"
    >>> in_options("use HDPMeans(divergence={'kind': 'categorical'})", {"divergence"})
    'use HDPMeans with --divergence kind=categorical'
    """

    def option(found: re.Match[str]) -> str:
        estimator, first, its_value, name, value, alone = found.groups()
        parameter = first or name or alone
        if parameter is None or OPTIONS.get(parameter, parameter) not in known:
            return found[0]
        if alone:
            return flags({alone: True})[0]
        try:
            words = " ".join(flags({parameter: ast.literal_eval(its_value or value)}))
        except (SyntaxError, ValueError):  # a dict that was cut
            return found[0]
        return f"{estimator} with {words}" if estimator else words

    return TOKEN.sub(option, message)
