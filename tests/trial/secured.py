"""A broker with a login and an authorizer, of which a right or the user can be taken."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.services.kafka_server import KafkaServer

PATIENCE_S: Final = 240.0
MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
JAAS: Final = "listener.name.login.plain.sasl.jaas.config"
LOGIN: Final = """security_protocol = "SASL_PLAINTEXT"
sasl_mechanism = "PLAIN"
sasl_username = "relevanced"
sasl_password = "secret"
"""
"""The section of Kafka with which processes log in."""
RIGHTS: Final = (("Read", "--topic", "*"), ("Read", "--group", "*"))


class SecuredKafka(KafkaServer):
    """Who searches needs no login; the processes have one, and the rights that they need."""

    def __init__(self, directory: Path) -> None:
        super().__init__(
            directory,
            listeners={"LOGIN": "SASL_PLAINTEXT"},
            properties={
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
                "sasl.enabled.mechanisms": "PLAIN",
                JAAS: f'{MODULE} user_relevanced="secret";',
            },
        )

    def give_rights(self) -> None:
        for right in RIGHTS:
            self._acl("--add", right)

    def take_reading(self) -> None:
        """Take the right to read the topic."""
        self._acl("--remove", RIGHTS[0], "--force")

    def comes_back_with(self, user: str) -> None:
        """Crash and start again with another user than before, or the former one again."""
        self.kill()
        self.properties[JAAS] = f'{MODULE} user_{user}="secret";'
        self._write_settings()
        self.start()

    def _acl(self, verb: str, right: Sequence[str], *more: str) -> None:
        operation, *what = right
        command = self._java(
            "org.apache.kafka.tools.AclCommand", "--bootstrap-server", self.bootstrap, verb, *more
        )
        command += ["--allow-principal", "User:relevanced", "--operation", operation, *what]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stdout + done.stderr
