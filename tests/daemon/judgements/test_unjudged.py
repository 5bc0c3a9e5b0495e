"""Whether a judged score fell where part of what is shown is not judged: the simulation, small."""

from tests.bench.unjudged import PAIR, run


def test_score_and_best_case_together_call_nothing_wrongly_and_the_score_alone_does() -> None:
    found = run(worlds=1, pool=14, seed=20261127)
    assert not sum(of.wrong[PAIR] for of in found.values())
    for name in ("another ranker, better", "5% new items, all very good"):
        assert found[name].verdicts["0"]["fall"] and found[name].wrong["0"]
        assert found[name].verdicts["condensed"]["fall"] and found[name].verdicts["bpref"]["fall"]
        assert found[name].verdicts[PAIR]["cannot tell"]


def test_what_judgements_can_show_is_still_called() -> None:
    found = run(worlds=1, pool=14, seed=20261127)
    for name in ("the first ten shuffled", "half of the items sink", "noisier"):
        assert found[name].verdicts[PAIR]["fall"], name
    assert found["tuned"].verdicts[PAIR]["rise"] and found["nothing"].verdicts[PAIR]["steady"]
