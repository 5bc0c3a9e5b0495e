"""`relevanced settings`: a configuration of all defaults that explains itself."""

import re
import tomllib

from click.testing import CliRunner, Result

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.config import SETTINGS, Config, load


def settings(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["settings", *arguments])


def test_output_is_the_configuration_of_all_defaults() -> None:
    printed = settings().stdout
    assert load(printed, {}, "printed") == Config()
    assert tomllib.loads(printed).keys() == {one.section or one.name for one in SETTINGS}


def test_every_setting_has_its_meaning_and_its_variable() -> None:
    output = settings().stdout
    words = " ".join(line.removeprefix("# ") for line in output.splitlines())
    for one in SETTINGS:
        assert one.help_text in words
        assert one.variable in output


def test_commented_sections_are_valid_when_they_are_uncommented() -> None:
    output = settings("experiments.").stdout.replace("NAME", "ranker-v2")
    lines = [line.removeprefix("# ") for line in output.splitlines()]
    text = "\n".join(line for line in lines if re.match(r"\[|[a-z_]+ = ", line))
    read = load(text, {}, "printed")
    ((name, declared),) = read.experiments
    assert (name, declared.control) == ("ranker-v2", "control")


def test_settings_can_be_asked_for_by_a_part_of_their_name() -> None:
    output = settings("kafka.sasl").stdout
    assert output.count("RELEVANCED_") == 4
    assert settings("nonsense").exit_code == 2
