"""A tiny HTTP server in the place of a cluster's API: it answers what a test says and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

__all__ = ["ApiServer", "api_server"]


@dataclass
class ApiServer:
    """The server in a test's hands.

    :param kubeconfig: the file that leads to it.
    :param answers: by path, status and body; without one a GET of a collection is empty, everything else is `{}`.
    :param asked: method, path and query of each request, in order.
    """

    kubeconfig: str
    answers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    asked: list[tuple[str, str, str]] = field(default_factory=list)

    def answer(self, method: str, path: str) -> tuple[int, Any]:
        """What a request gets."""
        if path in self.answers:
            return self.answers[path]
        return 200, {"metadata": {"name": "x", "namespace": "n", "labels": {}}, "items": []}


@contextmanager
def api_server(folder: Path) -> Iterator[ApiServer]:
    """Run one on loopback while the block lasts."""
    kubeconfig = folder / "kubeconfig"
    api = ApiServer(str(kubeconfig))

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            path, _, query = self.path.partition("?")
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            api.asked.append((self.command, path, query))
            status, body = api.answer(self.command, path)
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    cluster = {"server": f"http://127.0.0.1:{server.server_port}"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "none"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    kubeconfig.write_text(yaml.safe_dump(config))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
