"""`relevanced metrics`: what it says of each family."""

import msgspec
import pytest
from click.testing import CliRunner, Result

from relevanced.daemon.commands.cli import cli
from relevanced.metrics import CATALOG, descriptions, parse


def metrics(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["metrics", *arguments])


def test_every_family_is_listed_with_its_meaning() -> None:
    output = metrics().stdout
    for family, entry in CATALOG.items():
        assert any(line.split()[:1] == [example(family)] for line in output.splitlines())
        assert entry.meaning in output


def example(family: str) -> str:
    return next(one.example for one in descriptions() if one.family == family)


def test_every_example_can_be_named() -> None:
    assert [parse(one.example).name for one in descriptions()] == [
        one.example for one in descriptions()
    ]


def test_live_is_what_a_configuration_accepts() -> None:
    found = {
        one["family"]: one["live"]
        for one in msgspec.json.decode(metrics("--output", "json").stdout)
    }
    assert found.keys() == CATALOG.keys()
    assert found["RR"] and found["FirstFeedbackSeconds"] and found["IPS-P"]
    assert not found["Bpref"] and not found["Coverage"] and not found["Fallout"]


def test_name_with_parameters_is_explained_by_its_family() -> None:
    lines = metrics("nDCG(gain=linear)@10").stdout.splitlines()
    assert lines[0] == "nDCG, for example nDCG@10"
    assert "  parameters    gain: exponential or linear; default exponential" in lines


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("CTR", "1 - Abandonment: name Abandonment"),
        ("MRR", "name RR"),
        ("no_results", "write ZeroResults"),
        ("quality", "`relevanced metrics` lists all of them"),
    ],
)
def test_names_that_people_use_lead_to_the_metric(asked: str, answer: str) -> None:
    result = metrics(asked)
    assert result.exit_code == 2
    assert answer in " ".join(result.stderr.split())


def test_other_names_are_in_the_explanation_of_their_metric() -> None:
    assert "ctr" in metrics("Abandonment").stdout
    assert "mrr" in metrics("RR").stdout
