"""A server on loopback that answers as a model hub does, or as it should not."""

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """What the server holds and how it behaves.

    `status` answers every request; `cut` closes the connection after so many bytes, once for
    every entry; `flip` sends one wrong byte; `token` is asked for.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    status: int | None = None
    cut: list[int] = field(default_factory=list)
    flip: bool = False
    token: str | None = None
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    url: str = ""


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """Run the server while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.answer(send=False)

        def do_GET(self) -> None:
            self.answer(send=True)

        def answer(self, send: bool) -> None:
            found = re.fullmatch(r"/(.+)/resolve/([^/]+)/(.+)", self.path)
            name = f"{found[1]}@{found[2]}/{found[3]}" if found else self.path
            hub.requests.append((f"{self.command} {name}", self.headers.get("Range")))
            if hub.status is not None:
                return self.refuse(hub.status, {})
            if hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
                return self.refuse(401, {"X-Error-Code": "GatedRepo"})
            if name not in hub.files:
                return self.refuse(404, {"X-Error-Code": "EntryNotFound"})
            self.give(hub.files[name], send)

        def refuse(self, status: int, headers: dict[str, str]) -> None:
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def give(self, content: bytes, send: bool) -> None:
            start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=")[:-1])
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content)}/{len(content)}")
            self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            if not send:
                return
            body = content[start:]
            if hub.flip:
                body = bytes([body[0] ^ 1]) + body[1:]
            if hub.cut:
                self.wfile.write(body[: hub.cut.pop(0)])
                self.close_connection = True
                return
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
