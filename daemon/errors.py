"""What can go wrong with an outside world, by what its caller does about it."""


class Unavailable(Exception):
    """A server, Kafka or Redis, does not answer in time or cannot do its work now: wait with jitter
    and try again. Nothing is lost. The text says which server and why."""


class Lost(Exception):
    """The store no longer knows the caller as the writer of a lane: drop the lane's memory and
    claim it again."""


class Damaged(Exception):
    """A part of a lane's state is missing or not ours: nothing that this process does mends it."""


class RecordRefused(Exception):
    """A topic will never take this record as it is: it is too large, for instance."""


class StartError(Exception):
    """The process cannot start as configured; the text says to people what to change."""
