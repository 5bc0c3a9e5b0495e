"""The text of a layout: it says everything that shapes rows."""

from dataclasses import replace
from typing import Final

from hypothesis import given, settings, strategies as st

from relevanced.daemon.config import Config, layout_of, load, under_layout

OPTIONAL_LINES: Final = {
    "": ['windows = ["5m", "2h"]'],
    "metrics": ['names = ["RR@10", "IPS-P@5", "nDCG(gain=linear)@5"]', "relevant_from = 2"],
    "segments": [
        'groupings = [["market", "kind"], ["experiment:x"]]',
        "max_segments = 500",
        "max_values = 700",
        "discovered_experiments = 3",
    ],
    "history": ["days = 3"],
    "queries": ["kept = 9", "min_users = 2", 'user = "visitor"', "examples = 0"],
    "judgements": ['metrics = ["P@3"]', "relevant_from = 2", "max_grade = 2", 'unjudged = "skip"'],
}
EXPERIMENT: Final = '[experiments.x]\ncontrol = "a"\n'
DERIVED: Final = '[[derive]]\nattribute = "kind"\nwords = [1, 2, 3]\n'
PROPENSITIES: Final = '[propensities.tables.web]\nversion = "1"\nranks = [1.0, 0.5]\n'


@st.composite
def configurations(draw: st.DrawFn) -> Config:
    """Configurations of one join, which differ in everything else."""
    text = ""
    for section, lines in OPTIONAL_LINES.items():
        chosen = [line for line in lines if draw(st.booleans())]
        if section == "queries" and draw(st.booleans()):
            chosen += ['text = "plain"']
        if section == "judgements" and draw(st.booleans()):
            chosen += ['directory = "judged"', *["missing = true"] * ('text = "plain"' in text)]
        elif section == "judgements":
            chosen = []
        text += "\n".join([f"[{section}]"] * bool(section) + chosen) + "\n"
    text += EXPERIMENT * draw(st.booleans())
    text += DERIVED * ('"kind"' in text and draw(st.booleans()))
    text += PROPENSITIES * ("IPS" in text)
    return load(text, {}, "drawn")


@settings(max_examples=25, deadline=None)
@given(configurations(), configurations())
def test_processes_of_any_configuration_have_the_same_plan_under_a_layout(
    own: Config, other: Config
) -> None:
    layout = layout_of(other)
    worked = under_layout(own, layout)
    assert layout_of(worked).digest == layout.digest
    shown = own.plan.max_segments
    assert worked.plan == replace(other.plan, max_segments=shown)
    assert load(layout.text, {}, "text").plan == replace(other.plan, max_segments=100)
