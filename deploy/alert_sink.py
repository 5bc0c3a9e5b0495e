"""Shows the alerts that Alertmanager sends: for the compose file, instead of a pager.

    python alert_sink.py [PORT]    # http://localhost:8080, and a line on standard output for each

The standard library only. It keeps the last alerts in memory.
"""

import json
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

PORT: Final = 8080
KEPT: Final = 200
ALWAYS_FIRES: Final = "RelevancedWatchdog"
PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="10">
<title>Alerts</title>
<style>body{{font:16px/1.4 sans-serif;max-width:60em;margin:2em auto}} .firing{{color:#b00}}</style>
<h1>Alerts</h1>
<p>The newest first. Alertmanager: {heard}.</p>
{alerts}
</html>
"""


class Alerts:
    """The last alerts, and when Alertmanager was last heard of."""

    def __init__(self) -> None:
        self.last: deque[tuple[str, Mapping[str, Any]]] = deque(maxlen=KEPT)
        self.heard = "not heard of yet"

    def take(self, notification: Mapping[str, Any], receiver: str, at: str) -> Iterator[str]:
        """Keep the alerts of a notification; yields a line of text for each."""
        self.heard = f"last heard of at {at}"
        for alert in notification["alerts"]:
            if alert["labels"]["alertname"] != ALWAYS_FIRES:
                self.last.appendleft((f"{at} {receiver}", alert))
                yield f"{at} {receiver} {alert['status']}: {title(alert)}"

    def page(self) -> str:
        """The page of all alerts."""
        alerts = "\n".join(section(where, alert) for where, alert in tuple(self.last))
        return PAGE.format(heard=escape(self.heard), alerts=alerts or "<p>None so far.</p>")


def title(alert: Mapping[str, Any]) -> str:
    """The name and the summary of an alert."""
    summary = alert["annotations"].get("summary", "")
    return f"{alert['labels']['alertname']}: {summary}"


def section(where: str, alert: Mapping[str, Any]) -> str:
    """One alert as HTML."""
    status = escape(alert["status"])
    text = escape(alert["annotations"].get("description", ""))
    return (
        f'<h2 class="{status}">{escape(title(alert))}</h2>\n'
        f"<p>{escape(where)}, {status}</p>\n<p>{text}</p>"
    )


def handler(alerts: Alerts) -> type[BaseHTTPRequestHandler]:
    """The requests: POST by Alertmanager, GET by browsers."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            notification = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            at = time.strftime("%H:%M:%S", time.gmtime())
            for line in alerts.take(notification, self.headers.get("Host", ""), at):
                print(line, flush=True)
            self._answer(b"")

        def do_GET(self) -> None:
            self._answer(alerts.page().encode())

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing about requests."""

    return Handler


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else PORT
    ThreadingHTTPServer(("", port), handler(Alerts())).serve_forever()
