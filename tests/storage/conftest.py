"""What holds around every test of this folder."""

import pytest

from dask_dpmeans.api import job


@pytest.fixture(autouse=True)
def every_step_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """In object stores too: short steps are committed one by one, as long ones are."""
    monkeypatch.setattr(job, "COMMIT_SECONDS", 0.0)
