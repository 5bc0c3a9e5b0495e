"""Which messages of the stage a lane takes."""

from relevanced.daemon.events import AT_END, NOTHING, Of, Place
from relevanced.daemon.lane import Chain, Taken


def taken(chain: Chain, place: Place, prev: Place, partition: int = 0) -> bool:
    return chain.takes(Of("clicks", partition, *place, 0, prev))


def test_a_message_is_taken_once_and_after_the_one_that_it_names() -> None:
    chain = Chain()
    assert taken(chain, (4, 0), NOTHING)
    assert not taken(chain, (4, 0), NOTHING)
    assert not taken(chain, (9, 1), (9, 0))
    assert taken(chain, (9, 0), (4, 0)) and taken(chain, (9, 1), (9, 0))
    assert taken(chain, (1, 0), NOTHING, partition=1)
    assert chain.outcomes == {"taken": 4, "repeat": 1, "early": 1}


def test_nothing_follows_an_end_mark() -> None:
    chain = Chain()
    assert taken(chain, (4, 0), NOTHING)
    assert taken(chain, (5, AT_END), (4, 0)) and taken(chain, (5, AT_END), (4, 0))
    assert taken(chain, (5, 0), (4, 0))
    assert not taken(chain, (5, AT_END), (4, 0)), "the source has gone on"


def test_after_a_gap_the_first_message_of_each_source_is_taken() -> None:
    chain = Chain(Taken({"clicks/0": (4, 0)}))
    assert not taken(chain, (9, 0), (8, 0))
    chain.note_gap()
    assert not taken(chain, (4, 0), NOTHING), "it was taken before"
    assert taken(chain, (9, 0), (8, 0)) and taken(chain, (3, 0), (2, 5), partition=1)
    assert not taken(chain, (9, 0), (8, 0)) and not taken(chain, (11, 0), (10, 0))
    assert not taken(chain, (5, 0), (4, 0), partition=1)


def test_a_source_that_lost_nothing_in_a_gap_loses_nothing_after_it() -> None:
    """Its first message failed, and comes again behind the second one."""
    chain = Chain(Taken({"clicks/0": (4, 0)}))
    chain.note_gap()
    chain.know_all(["clicks/0", "clicks/1", "clicks/2"])
    assert taken(chain, (3, 0), (2, 5), partition=1), "what came before it may be lost"
    assert taken(chain, (0, AT_END), NOTHING, partition=2), "it had sent nothing yet"
    for partition in (2, 3):  # 3 came since
        assert not taken(chain, (1, 0), (0, 0), partition=partition)
        assert taken(chain, (0, 0), NOTHING, partition=partition)
        assert taken(chain, (1, 0), (0, 0), partition=partition)


def test_a_lane_has_all_up_to_when_the_last_of_its_logs_was_seen_at_its_end() -> None:
    chain = Chain(end_ms={"clicks/0": 70, "clicks/1": 60})
    assert chain.complete_ms(["clicks/0", "clicks/1"]) == 60
    assert chain.complete_ms(["clicks/0", "clicks/2"]) is None
    assert taken(chain, (4, 0), NOTHING, partition=1)
    assert chain.complete_ms(["clicks/0", "clicks/1"]) == 60, "also once more came"
    chain.note_gap()
    assert chain.complete_ms(["clicks/0", "clicks/1"]) is None
