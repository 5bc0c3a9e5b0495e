"""A collector of traces for tests: OTLP over HTTP, by a thread."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector(HTTPServer):
    """Keeps what it is sent while its context is open."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Door)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.spans: list[Span] = []
        self.services: set[str] = set()
        """What the senders call themselves."""
        self._serving = threading.Thread(target=self.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._serving.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self._serving.join()
        self.server_close()

    def take(self, body: bytes) -> None:
        for of_process in ExportTraceServiceRequest.FromString(body).resource_spans:
            said = {one.key: one.value.string_value for one in of_process.resource.attributes}
            self.services.add(said["service.name"])
            for scope in of_process.scope_spans:
                self.spans += scope.spans


class _Door(BaseHTTPRequestHandler):
    """One request to the collector."""

    server: Collector

    def do_POST(self) -> None:
        assert self.path == "/v1/traces"
        self.server.take(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass
