import ast
import subprocess
import sys
from itertools import compress
from operator import not_
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import TAME, spread, tables, trace, weights_of

import dask_dpmeans
from dask_dpmeans.kernels import numba_support
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


def called_by(body, names):
    """The functions among the names that statements, or what is in them, name."""
    found = {each.id for part in body for each in ast.walk(part) if isinstance(each, ast.Name)}
    return found & names


def test_parts_are_called_by_compiled_loops_of_their_file_alone():
    """Numba makes no way into them from Python."""
    files = sorted(Path(dask_dpmeans.__file__).parent.rglob("*.py"))
    every, imports = dict[str, set[str]](), set[tuple[str, str]]()
    for file in files:
        body = ast.parse(file.read_text()).body
        marks = [
            {ast.unparse(mark) for mark in getattr(each, "decorator_list", ())} for each in body
        ]
        parts = {
            each.name for each, mark in zip(body, marks, strict=True) if "compile_part" in mark
        }
        loops = [
            bool(mark & {"compile_part", "compile_loop", "compile_any_order"}) for mark in marks
        ]
        assert called_by(compress(body, loops), parts) == parts, file
        assert not called_by(compress(body, map(not_, loops)), parts), file
        every[file.stem] = every.get(file.stem, set()) | parts
        for each in body:
            if isinstance(each, ast.ImportFrom):
                module = (each.module or "").split(".")[-1]
                imports |= {(module, alias.name) for alias in each.names}
    assert any(every.values())
    assert not [(module, name) for module, name in imports if name in every.get(module, ())]


def test_a_part_that_python_calls_is_plain_python(monkeypatch):
    monkeypatch.setattr(numba_support, "compiler", None)
    assert numba_support.compile_part(lambda a, b: a + b)(2, 3) == 5


FIXED = {
    "GOLDEN mix",  # SplitMix64
    "linear_costs_compiled squared_distances_compiled",  # by definition
    "VANISHING pair_cost",
    "add_rows_compiled greatest_compiled",  # in row order
}
"""What loops take from other files: code that Numba has kept goes on with what these were."""


def test_loops_take_from_other_files_only_what_is_fixed():
    """Numba keeps a loop until its own file changes."""
    marks, found = {"compile_part", "compile_loop", "compile_any_order"}, set()
    for file in (Path(dask_dpmeans.__file__).parent / "kernels").glob("*.py"):
        body = ast.parse(file.read_text()).body
        imports = [each for each in body if isinstance(each, ast.ImportFrom)]
        names = {
            name.asname or name.name
            for each in imports
            if str(each.module).startswith("dask_dpmeans.")
            for name in each.names
        }
        for loop in body:
            if {ast.unparse(mark) for mark in getattr(loop, "decorator_list", ())} & marks:
                used = [node for each in loop.body for node in ast.walk(each)]
                used = [node for node in used if isinstance(node, ast.Name)]
                own = {node.id for node in used if isinstance(node.ctx, ast.Store)}
                own |= {each.arg for each in loop.args.args}
                found |= {node.id for node in used} & names - own
    assert found == {*" ".join(FIXED).split()}
