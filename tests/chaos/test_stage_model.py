"""An exhaustive search of what the stage of `lanes = "rekey"` may send and lanes take: nothing is
lost, counted twice or stuck, and each rule of the chain is needed."""

import pytest

from relevanced.daemon.events import Impression, Of, Place, read_sent
from relevanced.daemon.lane import chain
from relevanced.daemon.worker import SourceRun, SourceState, Targets
from tests.chaos.stage_model import LANES, TARGETS, Run, Verdict, after_sending, message_of, search


def test_lanes_take_each_record_once_in_order() -> None:
    states, broken = search(chain.verdict, 3)
    assert broken is None, f"these steps break a lane:\n{broken}"
    assert states > 50_000


def all_taken(last: Place, of: Of) -> str:
    return chain.TAKEN


def without_early(last: Place, of: Of) -> str:
    return chain.REPEAT if of.place <= last else chain.TAKEN


def without_repeat(last: Place, of: Of) -> str:
    return chain.EARLY if of.prev > last else chain.TAKEN


def only_the_next(last: Place, of: Of) -> str:
    """A run that began anew names nothing before its first message."""
    return chain.TAKEN if of.prev == last else chain.EARLY


@pytest.mark.parametrize(
    ("verdict", "harm"),
    [
        (all_taken, "wrong"),
        (without_early, "wrong"),
        (without_repeat, "wrong"),
        (only_the_next, "stuck"),
    ],
)
def test_each_rule_of_the_chain_is_needed(verdict: Verdict, harm: str) -> None:
    _, broken = search(verdict, 1)
    assert broken is not None and broken.splitlines()[-1].startswith(harm), broken


@pytest.mark.parametrize("begin", range(len(TARGETS)))
def test_a_run_of_the_stage_sends_what_the_model_sends(begin: int) -> None:
    """Apart from marks, which are chained like events: there is one pane."""
    targets = Targets(LANES, lambda id_: TARGETS[int(id_)], {"clicks": 1}, 10**15)
    run, modelled = SourceRun("clicks", 0, begin, SourceState(0), targets), Run(begin)
    for offset in range(begin, len(TARGETS)):
        (message,) = run.read(offset, None, [Impression(str(offset), 1, ("a",))])
        sent = read_sent(message.value)
        assert isinstance(sent, Of)
        target, of = message_of(modelled)
        assert (message.partition, sent.place, sent.prev) == (target, of.place, of.prev)
        modelled = after_sending(modelled)
