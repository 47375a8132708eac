"""Work that NumPy did in earlier processes for want of a compiled loop.

A process that makes one fit may never work long enough for compiling to pay, and the next is as
slow.  So a file beside the code that Numba keeps has a byte for each `UNIT` numbers that NumPy has
handled.  Bytes are only added, hence several processes may add at once, and no file can be damaged.
Which of a loop and its twin works changes no bit of a result, so neither does a file that is lost,
or that cannot be written.
"""

from contextlib import suppress
from pathlib import Path

UNIT = 2**28
"""Numbers that NumPy handles in about a quarter of a second."""
SHARE = 3
"""Past work counts for at most so many times the present: few rows never wait long."""


class PastWork:
    """Work for one loop and one kind of arguments.

    Parameters
    ----------
    file : a file that may not exist yet, or None if there is no folder
    """

    def __init__(self, file: Path | None) -> None:
        self.file, self.added = file, 0
        """Units that this process has added."""
        self.before = 0
        """Numbers that earlier processes handled."""
        if file is not None:
            with suppress(OSError):  # nothing was added yet
                self.before = file.stat().st_size * UNIT

    def with_present(self, work: int) -> int:
        """Return the numbers that were handled, now that this process has handled `work` of them."""
        return work + min(self.before, SHARE * work)

    def keep(self, work: int) -> None:
        """Add what is new of the numbers that this process has handled, if the file can be written."""
        new, file = work // UNIT - self.added, self.file  # which another thread may give up
        if file is None or new <= 0:
            return
        self.added += new
        try:
            with file.open("ab") as opened:
                opened.write(bytes(new))
        except OSError:  # a full disk, or a folder that is gone
            self.file = None
