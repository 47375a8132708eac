"""What can go wrong that is not a mistake of ours."""


class InputError(ValueError):
    """Data, parameters or paths that cannot be used."""


class TooManyClustersError(RuntimeError):
    """The penalty opens more clusters than `max_clusters`.  The steps committed so far stand."""


class CorruptStoreError(RuntimeError):
    """What a store holds is not what was written."""


class NoWorkersError(RuntimeError):
    """No worker came within the time limit."""


class ClusterLostError(RuntimeError):
    """The scheduler or all workers are gone, or a task ended each worker that took it.  Committed steps stand."""


class LockLostError(RuntimeError):
    """Another job has taken the output that this one was writing.  Its committed steps stand."""
