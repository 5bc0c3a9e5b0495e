"""The group `relevanced lane`, which lets lanes that have stopped continue.

`accept-new-log` lets lanes that stopped, because the log of a topic is another one, begin that log
from its start. It finds these lanes by the rules of the workers, and stores the permission in Redis
for exactly these lanes, logs and offsets. `begin-anew` lets a damaged lane begin with what Kafka
still has. The worker that owns the lane reads the permission within seconds; the command needs no
connection to the workers.
"""

import asyncio
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from ..config import Config, read
from ..errors import Damaged, StartError, Unavailable
from ..recompute.redis_client import connected
from ..storage import PERMISSION_S, LaneRegister, lane_topics, namespace
from . import options

if TYPE_CHECKING:
    from ..worker import LogChanged


@click.command("accept-new-log")
@click.argument("topic")
@options.config_option()
@click.option("--dry-run", is_flag=True, help="Print what was found, and accept nothing.")
def accept_new_log_command(topic: str, config_file: str | None, dry_run: bool) -> None:
    """Let lanes begin another log of TOPIC, from its start.

    For a topic that was deleted and created again, or that lost records which had been read: its
    lanes have stopped. They keep all that they have, and records that are sent again count once:
    an impression that is still open is a duplicate, and one that has settled is late. What was left
    unread of the old log is lost, and counted as a gap as far as it is known.

    Prints what was found for each lane, and exits 1 where no log of the topic is another one. Has
    no effect on lanes, logs or offsets other than these.
    """
    config = read(config_file, os.environ)
    if topic not in (topics := lane_topics(config)):
        known = ", ".join(topics)
        raise click.UsageError(f"{topic}: not among kafka.topics ({known})")
    try:
        changed = asyncio.run(_accept(config, topic, dry_run))
    except (Unavailable, Damaged, StartError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    if not changed:
        raise click.ClickException(
            f"{topic}: every lane's log is the one that it has read: nothing to accept"
        )
    for (lane, log), found in sorted(changed.items()):
        where = f"lane {lane}" if log == topic else f"lane {lane}, partition {found.partition}"
        click.echo(f"{where}: {found.why} Stored offset: {found.stored}.")
    ids = ", ".join(sorted({found.found or "unknown" for found in changed.values()}))
    lanes = ", ".join(map(str, sorted({lane for lane, _ in changed})))
    if dry_run:
        click.echo(f"nothing accepted (--dry-run): topic id {ids}, lanes {lanes}")
    else:
        click.echo(f"accepted: topic id {ids}, lanes {lanes}; they begin it within seconds")


async def _accept(
    config: Config, topic: str, dry_run: bool
) -> Mapping[tuple[int, str], "LogChanged"]:
    """Accept the logs of a topic that are not those that were read; returns them by lane and
    log."""
    from ..kafka import changed_logs, kafka_settings
    from ..lane import topic_of
    from ..recompute.redis_client import connected
    from ..storage import AcceptedLog, AcceptedLogs, LaneStore, Namespace, namespace

    name = namespace(config)
    async with connected(config) as client:
        count = await Namespace(client, config.redis.namespace, name).lanes()
        store = LaneStore(client, name)
        found = {lane: await store.head(lane) for lane in range(count)}
        heads = {
            lane: head
            for lane, head in found.items()
            if head and topic in map(topic_of, head.offsets)
        }
        if not heads:
            raise Unavailable(f"namespace {name}: no lane of {topic} has been read yet")
        changed = await changed_logs(kafka_settings(config), topic, heads)
        accepted = {at: AcceptedLog(error.found, error.stored) for at, error in changed.items()}
        if accepted and not dry_run:
            await AcceptedLogs(client, name).accept(accepted)
    return changed


@click.command("begin-anew")
@click.argument("lane", type=click.IntRange(min=0))
@options.config_option("The configuration that the workers run with.")
def begin_anew_command(lane: int, config_file: str | None) -> None:
    """Let the damaged LANE begin anew from the earliest records that Kafka has.

    A lane of which Redis lost parts stops where Kafka no longer has all of its records. With this,
    its worker removes what is left of it at the next try, within a minute, and reads the log again;
    records that Kafka has deleted are counted as a gap. A lane that is not damaged stays as it is.
    """
    config = read(config_file, os.environ)
    try:
        asyncio.run(_permit(config, lane))
    except Unavailable as error:
        raise click.ClickException(str(error)) from error
    click.echo(
        f"lane {lane} of {namespace(config)} may begin anew within {PERMISSION_S // 60} minutes,"
        " if its worker finds it damaged; a stopped lane is tried once a minute"
    )


async def _permit(config: Config, lane: int) -> None:
    async with connected(config) as client:
        await LaneRegister(client, namespace(config)).permit_to_begin_anew(lane)


@click.command("take-group")
@options.config_option("The configuration that the workers run with.")
@click.option("--dry-run", is_flag=True, help="Print to which Redis it belongs, and take nothing.")
def take_group_command(config_file: str | None, dry_run: bool) -> None:
    """Let the consumer group belong to the Redis of this configuration.

    For a Redis that has taken the place of another one, which is lost or not used any more: its
    workers stay out of the group meanwhile, and join within seconds. What this Redis has of the
    lanes stays, and they read on from the offsets stored there; lanes that it does not have begin
    at kafka.start. The offsets of the group stay as they are. Refused while the group has members.
    """
    config = read(config_file, os.environ)
    try:
        before, now = asyncio.run(_take_group(config, dry_run))
    except (Unavailable, StartError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"the group belonged to: {before or 'no Redis that is known'}")
    click.echo("nothing taken (--dry-run)" if dry_run else f"it belongs to: {now}")


async def _take_group(config: Config, dry_run: bool) -> tuple[str, str]:
    """(the note of the group before, its note now)."""
    from ..kafka import group_state, kafka_settings, take_group
    from ..storage import Namespace
    from .group_membership import Joining

    settings = kafka_settings(config)
    group = await group_state(settings)
    if group.members and not dry_run:
        raise Unavailable(
            f"consumer group {settings.group_id} has {group.members} members, which work with"
            f" {group.note or 'a Redis that is not known'}: stop them first"
        )
    async with connected(config) as client:
        named = Namespace(client, config.redis.namespace, namespace(config))
        joining = Joining(config, named, lambda _: None, lambda _: None)
        if dry_run:
            return group.note, (await joining.own()).note
        note = await joining.make_note()
    await take_group(settings, note)
    return group.note, note


@click.group("lane")
def lane_command() -> None:
    """Let lanes that have stopped continue, at an operator's decision."""


lane_command.add_command(accept_new_log_command)
lane_command.add_command(begin_anew_command)
lane_command.add_command(take_group_command)
