"""What Dask logs while a command runs: a line each, without tracebacks."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LOGGERS = ("asyncio", "distributed", "tornado")
"""Packages that log what has gone wrong on a connection with its traceback; the command itself says what follows."""


@contextmanager
def short_logs() -> Iterator[None]:
    """Cut what these packages log inside down to its first line."""
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
