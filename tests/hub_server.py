"""A server on loopback that answers as a model hub does, or with the faults of one."""

import hashlib
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """The contents of the server by `repository@revision/name`, and its behaviour."""

    files: dict[str, bytes] = field(default_factory=dict)
    status: int | None = None
    """The status of the answer to every request."""
    statuses: list[int] = field(default_factory=list)
    """The statuses of the answers to the next downloads, one for each, with the headers
    `refusal`."""
    busy: list[int] = field(default_factory=list)
    """The statuses of the answers to the next requests of any kind."""
    refusal: dict[str, str] = field(default_factory=dict)
    cuts: dict[str, list[int]] = field(default_factory=dict)
    """Numbers of bytes after which the connection is closed, download by download."""
    whole: bool = False
    """Whether the server sends all of a file where a part was requested."""
    flip: bool = False
    """Whether one byte that the server sends is wrong."""
    small: bool = False
    """Whether the server names files by git's digests, as it does for small files, and not by their
    sha256."""
    token: str | None = None
    branches: dict[str, list[str]] = field(default_factory=dict)
    """The commits of a `repository@branch`, one for each request; the last one stays."""
    cdn: bool = False
    """Whether contents come from another host, which must not receive the token."""
    stall: int | None = None
    """The number of bytes of a download that the server sends before `go` is set; if negative, it
    does not even send the headers."""
    go: threading.Event = field(default_factory=threading.Event)
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    url: str = ""

    @property
    def asked(self) -> list[tuple[str, str | None]]:
        """The requests for files, without the client's requests to the hub's API."""
        return [item for item in self.requests if "/api/" not in item[0]]

    def gets(self, name: str) -> list[str | None]:
        """Return the range of bytes that each download of a file requested."""
        return [byte_range for request, byte_range in self.requests if request == f"GET {name}"]

    def commit(self, repository: str, revision: str) -> str:
        """Return the commit of a revision at this request."""
        commits = self.branches.get(f"{repository}@{revision}", [revision])
        return commits.pop(0) if len(commits) > 1 else commits[0]


def hub_of(repository: str, files: Mapping[str, bytes], **behaviour: Any) -> Hub:
    """Return a hub that has a repository's files at `COMMIT`, the commit of its branch `main`."""
    files_by_path = {f"{repository}@{COMMIT}/{name}": data for name, data in files.items()}
    return Hub(files_by_path, branches={f"{repository}@main": [COMMIT]}, **behaviour)


class Handler(BaseHTTPRequestHandler):
    """A request handler that writes no log. Its answers state their length, so that connections
    stay open."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def reply(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    """A server that ignores the lost connection of a client that was killed."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """Run a server while the block runs. The block receives its port."""
    server = Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """Run the server while the block runs."""

    class Sending(Handler):
        def do_HEAD(self) -> None:
            self.answer(send=False)

        def do_GET(self) -> None:
            self.answer(send=True)

        def answer(self, send: bool) -> None:
            if hub.stall is not None and hub.stall < 0:
                hub.go.wait()
            if self.path.startswith("/cdn/"):
                assert "Authorization" not in self.headers
                name = self.path.removeprefix("/cdn/")
                hub.requests.append((f"{self.command} {name}", self.headers.get("Range")))
                return self.give(name, COMMIT, send)
            match = re.fullmatch(r"/(.+)/resolve/([^/]+)/(.+)", self.path)
            requested, name, commit = self.path, self.path, COMMIT
            if match:
                repository, revision, file = match.groups()
                commit = hub.commit(repository, revision)
                requested, name = (f"{repository}@{at}/{file}" for at in (revision, commit))
            hub.requests.append((f"{self.command} {requested}", self.headers.get("Range")))
            if hub.status is not None:
                return self.reply(hub.status, {})
            if hub.statuses and match and send:
                return self.reply(hub.statuses.pop(0), hub.refusal)
            if hub.busy and match:
                return self.reply(hub.busy.pop(0), hub.refusal)
            if hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
                return self.reply(401, {"X-Error-Code": "GatedRepo"})
            if name not in hub.files:
                return self.reply(404, {"X-Error-Code": self.missing(name)})
            if hub.cdn and send:
                port = self.server.server_address[1]
                return self.reply(302, {"Location": f"http://localhost:{port}/cdn/{name}"})
            self.give(name, commit if re.fullmatch("[0-9a-f]{40}", commit) else COMMIT, send)

        def missing(self, name: str) -> str:
            repository, _, rest = name.partition("@")
            revision = rest.partition("/")[0]
            if not any(key.startswith(f"{repository}@") for key in hub.files):
                return "EntryNotFound" if not hub.branches else "RepoNotFound"
            if not any(key.startswith(f"{repository}@{revision}/") for key in hub.files):
                return "RevisionNotFound"
            return "EntryNotFound"

        def give(self, name: str, commit: str, send: bool) -> None:
            content = hub.files[name]
            byte_range = None if hub.whole else self.headers.get("Range")
            start = int((byte_range or "bytes=0-").removeprefix("bytes=")[:-1])
            if start >= len(content) > 0:
                return self.reply(416, {})
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content)}/{len(content)}")
            digest = hashlib.sha1 if hub.small else hashlib.sha256
            self.send_header("ETag", f'"{digest(content).hexdigest()}"')
            self.send_header("X-Repo-Commit", commit)
            self.send_header("X-Linked-Size", str(len(content)))
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            if send:
                self.send(name, content[start:], start)

        def send(self, name: str, body: bytes, start: int) -> None:
            if hub.flip and body:
                body = bytes([body[0] ^ 1]) + body[1:]
            if hub.stall is not None and len(body) > hub.stall:
                self.wfile.write(body[: hub.stall])
                hub.go.wait()
                self.close_connection = True
                return
            end = hub.cuts[name].pop(0) - start if hub.cuts.get(name) else None
            self.wfile.write(body[:end])
            if end is not None:
                self.close_connection = True

    with listening(Sending) as port:
        hub.url = f"http://127.0.0.1:{port}"
        try:
            yield hub
        finally:
            hub.go.set()
