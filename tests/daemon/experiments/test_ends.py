"""An experiment that has ended: what comes afterwards is noted once, by who settles it."""

from copy import deepcopy

from relevanced.daemon.experiments import DAY_MS, Experiments, Spec

END_MS = 20_000 * DAY_MS
SPEC = Spec("x", "control", 100_000, ("RR@10",), end_ms=END_MS)


def test_whether_a_pane_counts_is_a_question_that_notes_nothing() -> None:
    experiments = Experiments()
    experiments.begin("x", SPEC.digest)
    experiments.reach(SPEC, END_MS - 1)
    experiments.start_batch()
    before = deepcopy(experiments)
    panes = (END_MS - 1, END_MS, END_MS + 1)
    assert [experiments.counts(SPEC, at_ms) for at_ms in panes] == [True, False, False]
    assert experiments == before


def test_only_what_an_end_keeps_out_is_missed_and_the_first_of_it_is_noted() -> None:
    experiments = Experiments(since_ms={"x": END_MS + 10})
    experiments.begin("x", SPEC.digest)
    experiments.start_batch()
    for at_ms in (END_MS - 1, END_MS):
        experiments.miss(SPEC, at_ms)
    assert not experiments.changed and not experiments.by_name["x"].missed
    for at_ms in (END_MS + 20, END_MS + 30):
        experiments.miss(SPEC, at_ms)
    assert experiments.changed == {"x"} and experiments.by_name["x"].missed == ((END_MS, 0),)
