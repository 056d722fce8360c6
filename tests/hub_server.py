"""A server on loopback that answers as a model hub does, or as it should not."""

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
    """What the server holds, as `repository@revision/name`, and how it behaves."""

    files: dict[str, bytes] = field(default_factory=dict)
    status: int | None = None
    """The answer to every request."""
    statuses: list[int] = field(default_factory=list)
    """Answers to the next downloads, one each, with the headers `refusal`."""
    busy: list[int] = field(default_factory=list)
    """The same for the next requests of any kind."""
    refusal: dict[str, str] = field(default_factory=dict)
    cuts: dict[str, list[int]] = field(default_factory=dict)
    """Bytes of a file at which the connection is closed, download by download."""
    whole: bool = False
    """All of a file is sent where a part was asked for."""
    flip: bool = False
    """One byte that is sent is wrong."""
    small: bool = False
    """Files have git's names, as small ones do, and not their sha256."""
    token: str | None = None
    branches: dict[str, list[str]] = field(default_factory=dict)
    """The commits that a `repository@branch` is at, request by request; the last one stays."""
    cdn: bool = False
    """Contents come from another host, which must not see the token."""
    stall: int | None = None
    """So many bytes of a download come before `go` is set; if negative, not even its head."""
    go: threading.Event = field(default_factory=threading.Event)
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    url: str = ""

    @property
    def asked(self) -> list[tuple[str, str | None]]:
        """The requests for files; the client has questions of its own."""
        return [item for item in self.requests if "/api/" not in item[0]]

    def gets(self, name: str) -> list[str | None]:
        """Of the downloads of one file, the bytes that were asked for."""
        return [asked for request, asked in self.requests if request == f"GET {name}"]

    def commit(self, repository: str, revision: str) -> str:
        """Where a revision is now."""
        commits = self.branches.get(f"{repository}@{revision}", [revision])
        return commits.pop(0) if len(commits) > 1 else commits[0]


def hub_of(repository: str, files: Mapping[str, bytes], **behaviour: Any) -> Hub:
    """One with a repository's files at `COMMIT`, which `main` is at."""
    named = {f"{repository}@{COMMIT}/{name}": data for name, data in files.items()}
    return Hub(named, branches={f"{repository}@main": [COMMIT]}, **behaviour)


class Handler(BaseHTTPRequestHandler):
    """Answers with a length, so that connections stay, and says nothing."""

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
    """Does not mind a client that was killed."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """Run a server while the block runs; gives its port."""
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
            found = re.fullmatch(r"/(.+)/resolve/([^/]+)/(.+)", self.path)
            asked, name, commit = self.path, self.path, COMMIT
            if found:
                repository, revision, file = found.groups()
                commit = hub.commit(repository, revision)
                asked, name = (f"{repository}@{at}/{file}" for at in (revision, commit))
            hub.requests.append((f"{self.command} {asked}", self.headers.get("Range")))
            if hub.status is not None:
                return self.reply(hub.status, {})
            if hub.statuses and found and send:
                return self.reply(hub.statuses.pop(0), hub.refusal)
            if hub.busy and found:
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
            asked = None if hub.whole else self.headers.get("Range")
            start = int((asked or "bytes=0-").removeprefix("bytes=")[:-1])
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
