"""`relevanced check-config`: lists every fault of a configuration, or prints the effective one."""

import os
import time
from collections.abc import Iterator
from itertools import chain

import click

from ..config import (
    JOIN,
    SETTINGS,
    Config,
    ConfigError,
    derive,
    describe,
    differing_keys,
    experiments,
    groupings_without_attributes,
    layout_of,
    load,
    metrics_blind_to_lost_clicks,
    propensities,
    queries_of_shown_items,
    read,
    read_file,
    restarting_keys,
    slow_expressions,
    source_checks,
    tables_without_users,
)
from ..errors import Unavailable
from ..http import check as check_web_config
from ..storage import consumer_group, namespace
from . import options
from .dated_files import in_force_lines
from .layout import BACKFILL, layout_changes

UNASKED = (
    "; where the roll-out is what mends that, do it without this check (with the chart:"
    " upgradeCheck.enabled=false)"
)
FILE = click.Path(exists=True, dir_okay=False)


@click.command("check-config")
@click.argument("file", type=FILE)
@click.option(
    "--against",
    "old_file",
    type=FILE,
    metavar="OLD_FILE",
    help="List what differs from this configuration, what becomes of each metric, grouping and"
    " window, and whether a fresh namespace starts.",
)
@click.option(
    "--in-place",
    is_flag=True,
    help="Ask Redis, and exit with 1 where the workers of another namespace serve these topics: a"
    " roll-out in their place would end them before this configuration has caught up.",
)
@click.option(
    "--secret-files/--no-secret-files",
    default=True,
    help="Whether files with secrets, the web configuration and its certificates, and files of"
    " judgements and classes are read too (they may be on other machines only).",
)
@options.role_option(
    "For a process of this role: an exporter needs no secret of Kafka's or the registry's."
)
def check_config_command(
    file: str, old_file: str | None, in_place: bool, secret_files: bool, role: str
) -> None:
    """Check the configuration FILE together with the RELEVANCED_* environment.

    Prints every fault at once and exits 2, or prints the effective configuration as TOML, with
    secrets masked, its namespace, and the keys whose change starts a fresh one.
    """
    config, old = _read_both(file, old_file, secret_files, role)
    in_force = in_force_lines(config, time.time_ns() // 1_000_000) if secret_files else ()
    click.echo(describe(config))
    derived = [one.attribute for one in config.derive]
    warnings = (
        slow_expressions(config.sources),
        tables_without_users(config.sources, config.queries),
        queries_of_shown_items(config.limits),
        metrics_blind_to_lost_clicks(config.parsed_metrics, config.queries),
        groupings_without_attributes(config.sources, config.segments.groupings, derived),
    )
    for warning in chain(*warnings):
        click.echo(f"# warning {warning}")
    for line in (*in_force, *_restart_lines(config)):
        click.echo(f"# {line}")
    if old is not None:
        for line in _change_lines(old, config):
            click.echo(f"# {line}")
    if in_place:
        _refuse_in_place(config)


def _refuse_in_place(config: Config) -> None:
    """Raises click.ClickException."""
    from .layout import in_place_refusal

    try:
        found = in_place_refusal(config)
    except Unavailable as error:
        raise click.ClickException(f"--in-place: {error}{UNASKED}") from error
    if found:
        raise click.ClickException(found)
    click.echo("# it may be rolled out in place")


def _read_both(
    file: str, old_file: str | None, secret_files: bool, role: str
) -> tuple[Config, Config | None]:
    configs: list[Config] = []
    faults: list[str] = []
    paths = [file] if old_file is None else [file, old_file]
    for path in paths:
        try:
            configs.append(_read(path, secret_files and path == file, role))
        except ConfigError as error:
            where = f"{path}: " if len(paths) > 1 else ""
            faults += [f"{where}{fault}" for fault in error.faults]
    if faults:
        raise ConfigError(faults)
    return configs[0], configs[1] if len(configs) > 1 else None


def _read(path: str, secret_files: bool, role: str) -> Config:
    if secret_files:
        config = read(path, os.environ, role=role)
        if config.http.web_config is not None:
            check_web_config(config.http.web_config)
        return config
    return load(read_file(path), os.environ, path, role=role)


def _restart_lines(config: Config) -> Iterator[str]:
    yield f"namespace in Redis: {namespace(config)}"
    yield f"consumer group: {consumer_group(config)}"
    restarting = (setting.key for setting in SETTINGS if setting.shapes == JOIN)
    keys = ", ".join((*restarting, source_checks.SECTION))
    if any(not source.has_files for source in config.sources):
        yield "both are others where the files that [[sources]] name are read"
    yield f"a change of any of these starts a fresh namespace from the log: {keys}"


def _experiment_lines(old: Config, new: Config) -> Iterator[str]:
    before = {} if old.tracking is None else old.tracking.digests()
    after = {} if new.tracking is None else new.tracking.digests()
    for name in sorted(before.keys() | after.keys()):
        named = f"experiments.{name}" if name else "experiments that are not declared"
        if name not in before:
            yield f"{named}: counts from its first settled pane on"
        elif name not in after:
            yield f"{named}: no longer declared"
        elif before[name] != after[name]:
            yield f"{named}: starts to count anew"
    for key, was, now in experiments.changes(old.experiments, new.experiments):
        yield f"{key}: {was} -> {now}"


def _change_lines(old: Config, new: Config) -> Iterator[str]:
    differing = differing_keys(old, new)
    of_experiments = list(_experiment_lines(old, new))
    yield from of_experiments
    if not differing and not of_experiments:
        yield "no difference"
        return
    restarting = set(restarting_keys(old, new))
    if old.redis.namespace != new.redis.namespace:
        restarting.add("redis.namespace")
    for setting in SETTINGS:
        if setting.key in differing:
            before, after = setting.written(old), setting.written(new)
            effect = " (starts a fresh namespace)" if setting.key in restarting else ""
            yield f"{setting.key}: {before} -> {after}{effect}"
    for section in (propensities.SECTION, derive.SECTION, source_checks.SECTION):
        if section in differing:
            effect = " (starts a fresh namespace)" if section in restarting else ""
            yield f"{section}: changed{effect}"
    if namespace(old) == namespace(new):
        yield from layout_changes(old.plan, new.plan)
        before, after = layout_of(old).digest, layout_of(new).digest
        if before != after:
            yield (
                f"another layout: {before} -> {after}; each lane goes to it in one commit, and"
                " nothing is read again"
            )
        yield f"the namespace stays {namespace(new)}"
    else:
        if new.plan.history_hours:
            yield f"hours from before the fresh namespace: {BACKFILL}"
        yield f"fresh namespace: {namespace(old)} -> {namespace(new)}"
