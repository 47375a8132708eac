"""Log messages of Dask, as one line each, without tracebacks."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LOGGERS = ("asyncio", "distributed", "tornado")
"""Packages that log errors of connections with tracebacks; the command itself says what happens
next."""


@contextmanager
def short_logs() -> Iterator[None]:
    """Cut messages of these packages to their first line."""
    make = logging.getLogRecordFactory()

    def short(*given: Any, **more: Any) -> logging.LogRecord:
        record = make(*given, **more)
        if record.name.partition(".")[0] in LOGGERS:
            record.msg, record.args = record.getMessage().strip().partition("\n")[0], ()
            record.exc_info = record.exc_text = record.stack_info = None
        return record

    logging.setLogRecordFactory(short)
    try:
        yield
    finally:
        logging.setLogRecordFactory(make)
