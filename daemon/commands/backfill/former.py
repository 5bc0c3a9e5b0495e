"""Hours that the workers of the release before stored, in its own namespace."""

from collections.abc import Awaitable, Callable

from ...config.settings import Config
from ...errors import Unavailable
from ...lane import row_set
from ...plan import Plan
from ...storage.former import former_namespace
from ...storage.keys import CLICKS
from ...storage.redis.client import Client
from ...storage.redis.lane_store import LaneStore
from ...storage.redis.namespace import Namespace
from ...storage.store import LaneDelta
from .staging import Staging


class FormerSource:
    """The settled hours of the former namespace of a configuration, as they are stored. Raises
    Unavailable, also where there is none, and Damaged."""

    of_any_layout = True

    def __init__(self, config: Config, client: Client) -> None:
        self._name = former_namespace(config)
        self._prefix = config.redis.namespace
        self._client = client
        self.words = f"the namespace {self._name}"

    async def count(self, staging: Staging, applied: Callable[[float], Awaitable[None]]) -> None:
        """See `run.Source`."""
        lanes = await Namespace(self._client, self._prefix, self._name).lanes()
        if not lanes:
            raise Unavailable(
                f"there is no namespace {self._name}: either it was removed, or the workers of the"
                " release before had another configuration, with which this must be called"
            )
        store = LaneStore(self._client, self._name)
        born: list[int] = []
        for lane in range(lanes):
            delta = await store.read(lane, "", None, 1)
            if delta is not None:
                born += _take(staging, delta)
            await applied((lane + 1) / lanes)
        # The lanes may have begun within their first hour.
        staging.first_ms = max(staging.first_ms, min(born, default=0) + staging.plan.hour_ms)


def _take(staging: Staging, delta: LaneDelta) -> list[int]:
    """Take over the hours of a lane that cannot change any more; returns its hours."""
    plan, state = staging.plan, delta.head.state
    if state.settled_before is None:
        return []
    pages = {
        hour: data for key, data in delta.pages.items() if (hour := CLICKS.of_hour(key)) is not None
    }
    for (start, page), data in pages.items():
        if start in staging.span:
            staging.take(start, page, data)
    staging.finish_part(_named(plan, delta))
    still_open = row_set.open_hour(state.settled_before, plan)
    staging.settled_ms = min(staging.settled_ms, still_open)
    if state.lost_hours:
        staging.first_ms = max(staging.first_ms, max(state.lost_hours) + plan.hour_ms)
    return [start for start, _ in pages]


def _named(plan: Plan, delta: LaneDelta) -> tuple[tuple[str, str], ...]:
    known = plan.grouping_names
    return ((known[0], known[0]), *((known[of], segment) for of, segment in delta.names))
