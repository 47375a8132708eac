import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import FunctionType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import TAME, spread, tables, trace, weights_of

import dask_dpmeans
from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.numba_support import CompiledLoop, CompiledPart
from dask_dpmeans.sources import as_source


@given(
    tables(rows=(1, 300), columns=(1, 9), kinds=TAME), st.sampled_from([0.01, 0.1, 1.0]), st.data()
)
def test_a_fit_gives_the_same_bytes_with_compiled_loops_and_without(rows, factor, data):
    weights, penalty = data.draw(weights_of(len(rows))), factor * spread(rows)
    fits = []
    for available in (numba_support.AVAILABLE, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(numba_support, "AVAILABLE", available)
            fits.append(trace(as_source(rows, weights), penalty))
    assert fits[0] == fits[1]


def test_compiled_loops_load_no_other_blas_than_those_that_are_limited():
    script = """
import numpy as np
from threadpoolctl import threadpool_info
from dask_dpmeans.kernels.distance import Centers, nearest
before = {pool["filepath"] for pool in threadpool_info() if pool["user_api"] == "blas"}
nearest(np.eye(5), Centers(np.eye(5)))
assert {pool["filepath"] for pool in threadpool_info() if pool["user_api"] == "blas"} == before
"""
    subprocess.run([sys.executable, "-c", script], check=True)


MARKS = {"compile_part", "compile_loop", "compile_any_order"}


def test_parts_are_called_by_compiled_loops_alone():
    """Numba makes no way into them from Python."""
    kernels, parts, by_loops, by_others = "dask_dpmeans.kernels", set(), set(), set()
    for file in sorted(Path(dask_dpmeans.__file__).parent.rglob("*.py")):
        body, here = ast.parse(file.read_text()).body, f"{kernels}.{file.stem}"
        origins = {
            alias.asname or alias.name: (each.module, alias.name)
            for each in body
            if isinstance(each, ast.ImportFrom)
            for alias in each.names
        }
        for each in body:
            marks = {ast.unparse(mark) for mark in getattr(each, "decorator_list", ())}
            if "compile_part" in marks:
                parts.add((here, each.name))
            names = {node.id for node in ast.walk(each) if isinstance(node, ast.Name)}
            found = {origins.get(name, (here, name)) for name in names}
            (by_loops if marks & MARKS else by_others).update(found)
    assert parts
    assert parts <= by_loops
    assert not parts & by_others


def test_compiled_loops_copy_arrays_element_by_element():
    """Numba compiles some two seconds more for an array that a slice takes, and .5 for `max` of one."""
    compiled = [
        each
        for file in sorted(Path(dask_dpmeans.__file__).parent.rglob("*.py"))
        for each in ast.parse(file.read_text()).body
        if MARKS & {ast.unparse(mark) for mark in getattr(each, "decorator_list", ())}
    ]
    assert len(compiled) > 100
    slow = [
        f"{each.name}: {ast.unparse(node)}"
        for each in compiled
        for node in ast.walk(each)
        if (isinstance(node, ast.Assign) and _copies(node))
        or (isinstance(node, ast.Call) and ast.unparse(node.func).endswith((".max", ".min")))
    ]
    assert not slow


def _copies(node):
    """Return whether a slice takes anything but the same number for all of its elements."""
    targets = [part for target in node.targets for part in getattr(target, "elts", [target])]
    values = getattr(node.value, "elts", [node.value])
    return any(isinstance(part, ast.Slice) for each in targets for part in ast.walk(each)) and any(
        not re.fullmatch(r"-?(np\.inf|[0-9.]+)", ast.unparse(value)) for value in values
    )


def test_a_part_that_python_calls_is_plain_python(monkeypatch):
    monkeypatch.setattr(numba_support, "compiler", None)
    assert numba_support.compile_part(lambda a, b: a + b)(2, 3) == 5


def abs_of(x):
    return abs(x)


def caller(x):
    return abs_of(x)


def test_parts_without_a_file_of_their_own_have_no_stamp():
    """As in a package in a zip file; the loop is compiled all the same."""

    def named(function, file, names):
        return FunctionType(function.__code__.replace(co_filename=file), names)

    part = CompiledPart(named(abs_of, "package.zip/part.py", {}))
    loop = CompiledLoop(named(caller, "package.zip/loop.py", {"abs_of": part}))
    assert len(loop.parts) == 2
    assert loop.stamp == ""


FIXED = {"ZERO"}
"""Numbers that never change."""


def test_what_loops_take_from_other_files_is_a_part_of_their_stamp():
    """Numba keeps a loop until its own file, or the text of its stamp changes."""
    taken, missing = 0, set()
    for file in (Path(dask_dpmeans.__file__).parent / "kernels").rglob("*.py"):
        module = import_module(
            ".".join(file.relative_to(Path(dask_dpmeans.__file__).parents[1]).with_suffix("").parts)
        )
        for loop in vars(module).values():
            if not isinstance(loop, CompiledLoop) or isinstance(loop, CompiledPart):
                continue
            files = {part.__code__.co_filename for part in loop.parts}
            for part in loop.parts:
                body = ast.parse(Path(part.__code__.co_filename).read_text()).body
                for each in body:
                    if isinstance(each, ast.ImportFrom) and str(each.module).startswith("dask_dp"):
                        used = {alias.name for alias in each.names} & {*part.__code__.co_names}
                        taken += len(used)
                        if str(import_module(str(each.module)).__file__) not in files:
                            missing |= used
    assert taken
    assert missing <= FIXED
