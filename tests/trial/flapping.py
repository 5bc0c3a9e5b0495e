"""A door of a process that lets every other scrape in."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from urllib.request import urlopen

PATIENCE_S = 10.0


class FlappingDoor:
    """Answers at `port` as the process does, or with 503 in turn, until `close`."""

    def __init__(self, target_port: int) -> None:
        turns = count()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if next(turns) % 2:
                    self.send_error(503)
                    return
                address = f"http://127.0.0.1:{target_port}{self.path}"
                with urlopen(address, timeout=PATIENCE_S) as answer:
                    body, kind = answer.read(), answer.headers["Content-Type"]
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
