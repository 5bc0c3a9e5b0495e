"""A real schema registry for tests: Apicurio Registry, run by Java, with its storage in memory.

It speaks Confluent's protocol (`url`) and its own. Its archive comes from Maven Central and is kept
outside the tree, as the jars of Kafka are.
"""

import json
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from tests.services import kafka_jars, processes
from tests.services.kept import kept

VERSION: Final = "3.0.9"
ARTIFACT: Final = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
JAR: Final = f"apicurio-registry-app-{VERSION}-runner.jar"
ADVICE: Final = (
    f"Tests against a registry need Java {kafka_jars.JAVA_NEEDED} or newer and Maven (Debian:"
    " apt-get install default-jre-headless maven)."
)
JAVA_FLAGS: Final = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
START_PATIENCE_S: Final = 90.0


class ApicurioRegistry:
    """One process. What is registered is gone when it ends."""

    def __init__(self, directory: Path) -> None:
        self.port = processes.free_port()
        self._log_path = directory / "apicurio.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The address of Confluent's protocol."""
        return f"{self.root}/apis/ccompat/v7"

    def start(self) -> None:
        java = kafka_jars.java()
        if java is None:
            raise kafka_jars.KafkaUnavailable(ADVICE)
        own = ("-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={self.port}")
        command = [java, *JAVA_FLAGS, *own, "-jar", str(_folder() / JAR)]
        self._process = processes.spawn(command, log=self._log_path)
        processes.wait_until(
            self._answers,
            alive=lambda: self._process is not None and self._process.poll() is None,
            log=self._log_path.read_text,
            name="Apicurio Registry",
            patience_s=START_PATIENCE_S,
        )

    def close(self) -> None:
        if self._process is not None:
            processes.end(self._process, signal.SIGKILL, patience_s=10)

    def register(
        self,
        subject: str,
        schema: str,
        kind: str = "AVRO",
        references: Sequence[Mapping[str, object]] = (),
    ) -> int:
        """Add a version to a subject; returns the id of the schema."""
        given = {"schema": schema, "schemaType": kind, "references": list(references)}
        request = Request(
            f"{self.url}/subjects/{quote(subject, safe='')}/versions",
            json.dumps(given).encode(),
            {"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        with urlopen(request, timeout=10) as answer:
            return int(json.load(answer)["id"])

    def global_id(self, subject: str) -> int:
        """The number of the first version of a subject in Apicurio's own interface."""
        path = f"/apis/registry/v3/groups/default/artifacts/{quote(subject, safe='')}/versions/1"
        with urlopen(self.root + path, timeout=10) as answer:
            return int(json.load(answer)["globalId"])

    def _answers(self) -> bool:
        try:
            with urlopen(f"{self.url}/subjects", timeout=2) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False


def _folder() -> Path:
    """The unpacked archive; Maven downloads it the first time."""
    return kept(f"apicurio-registry-{VERSION}", _download)


def _download(workspace: Path) -> Path:
    maven = shutil.which("mvn")
    if maven is None:
        raise kafka_jars.KafkaUnavailable(f"`mvn` is not on PATH. {ADVICE}")
    command = [maven, "-B", "-q", "-ntp", "dependency:copy", f"-Dartifact={ARTIFACT}"]
    command.append(f"-DoutputDirectory={workspace}")
    done = subprocess.run(
        command,
        cwd=workspace,
        capture_output=True,
        text=True,
        timeout=kafka_jars.DOWNLOAD_PATIENCE_S,
    )
    archives = list(workspace.glob("*.tar.gz"))
    if done.returncode != 0 or not archives:
        raise kafka_jars.KafkaUnavailable(f"Maven failed:\n{done.stdout[-3000:]}{done.stderr}")
    unpacked = workspace / "unpacked"
    with tarfile.open(archives[0]) as archive:
        archive.extractall(unpacked, filter="data")
    return unpacked
