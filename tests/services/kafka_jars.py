"""The jars of a Kafka broker, from Maven Central, kept outside the tree."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from tests.services.kept import kept

VERSION: Final = "4.3.1"
LOG4J_VERSION: Final = "2.24.3"
JAVA_NEEDED: Final = 17
DOWNLOAD_PATIENCE_S: Final = 600

ADVICE: Final = (
    f"Tests against Kafka need one of: Java {JAVA_NEEDED} or newer and Maven (Debian: apt-get"
    " install default-jre-headless maven), a running Docker engine, or a broker named by"
    " RELEVANCED_TEST_KAFKA=host:port."
)

POM: Final = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>relevanced.tests</groupId><artifactId>kafka</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>{dependencies}</dependencies>
</project>
"""
Artifact: TypeAlias = tuple[str, str, str]
"""Group, name and version."""
ARTIFACTS: Final[Sequence[Artifact]] = (
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION),
    ("org.apache.logging.log4j", "log4j-core", LOG4J_VERSION),
)


class KafkaUnavailable(Exception):
    """No way to get a broker; the message says what to install."""


def java() -> str | None:
    """The Java of JAVA_HOME or PATH if it is new enough for a broker."""
    home = os.environ.get("JAVA_HOME")
    binary = shutil.which(f"{home}/bin/java") if home else shutil.which("java")
    if binary is None:
        return None
    banner = subprocess.run([binary, "-version"], capture_output=True, text=True).stderr
    version = re.search(r'version "(\d+)', banner)
    return binary if version and int(version[1]) >= JAVA_NEEDED else None


def jars() -> Path:
    """The folder of jars; Maven downloads it the first time."""
    return kept(f"kafka-libs-{VERSION}", partial(fetched, ARTIFACTS))


def fetched(artifacts: Sequence[Artifact], workspace: Path) -> Path:
    """The folder of these artifacts and of what they need, below an empty folder."""
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailable(f"Java is here, but `mvn` is not on PATH. {ADVICE}")
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version></dependency>"
        for group, name, version in artifacts
    )
    pom = workspace / "pom.xml"
    pom.write_text(POM.format(dependencies=dependencies))
    command = [maven, "-B", "-q", "-ntp", "-f", str(pom), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={workspace / 'libs'}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_PATIENCE_S)
    if done.returncode != 0:
        raise KafkaUnavailable(f"Maven failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return workspace / "libs"
