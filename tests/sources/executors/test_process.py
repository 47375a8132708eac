import os
import platform
import subprocess
import sys

import pytest

PIECES = """
import resource
import numpy as np
from dask_dpmeans.sources.executors.process import keep_freed_memory

def fresh_pages(pieces):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(pieces):
        np.ones(2**21)  # 16 MiB, freed at once
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

keep_freed_memory()
fresh_pages(1)
print(fresh_pages(20))
"""
ANY_PIECE = 20
"""Each piece takes fresh pages, large ones or small ones."""


def fresh_pages(**environment: str) -> int:
    """Fresh pages that 20 pieces take, one after the other, in a process with this environment."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    command = [sys.executable, "-c", PIECES]
    done = subprocess.run(command, env=others | environment, capture_output=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc alone has the settings")
def test_workers_use_freed_memory_again_unless_the_user_has_chosen_thresholds():
    of_dask = {"MALLOC_TRIM_THRESHOLD_": "65536"}
    assert fresh_pages(**of_dask) < ANY_PIECE
    assert fresh_pages(MALLOC_TRIM_THRESHOLD_="131072") >= ANY_PIECE
    assert fresh_pages(**of_dask, MALLOC_MMAP_THRESHOLD_="131072") >= ANY_PIECE
