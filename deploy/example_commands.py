"""Commands of the documents, and what they print, as the documents have them."""

import shlex

from click.testing import CliRunner

from relevanced.daemon.commands.cli import cli


def output_of(command: str, exit_code: int = 0) -> str:
    """What a command prints: on stderr where it must end with a code that is not 0. Raises
    RuntimeError where it ends with another one."""
    result = CliRunner().invoke(cli, shlex.split(command)[1:])
    if result.exit_code != exit_code:
        raise RuntimeError(f"{command}: exit code {result.exit_code}: {result.output}")
    return result.stderr if exit_code else result.stdout


def section_of(commands: list[str], output: str) -> str:
    """Commands, and the output of the last one."""
    lines = "".join(f"    {command}\n" for command in commands)
    return f"\n{lines}\n```text\n{output.rstrip()}\n```\n"


def with_section(page: str, commands: list[str], output: str) -> str:
    """The page with another output below these commands. Raises ValueError where the first of them
    does not stand in it."""
    before, mark, rest = page.partition(f"\n    {commands[0]}\n")
    if not mark:
        raise ValueError(f"{commands[0]}: does not stand in the page")
    _, _, rest = rest.partition("\n```text\n")
    return before + section_of(commands, output) + rest.partition("\n```\n")[2]
