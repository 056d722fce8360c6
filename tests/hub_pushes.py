"""A server on loopback that takes commits as a model hub does, or refuses them at some step."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import ClassVar

from tests.hub_server import listening

TOKEN = "t0ken"


@dataclass
class Pushes:
    """Repositories, as files by branch. `failing` are statuses by step: create, preupload, …"""

    repositories: dict[str, dict[str, dict[str, bytes]]] = field(default_factory=dict)
    private: dict[str, bool] = field(default_factory=dict)
    commits: list[list[str]] = field(default_factory=list)
    uploads: dict[str, bytes] = field(default_factory=dict)
    failing: dict[str, int] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)
    url: str = ""


def blob(data: bytes) -> str:
    """Git's name for a content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def sibling(name: str, data: bytes) -> dict:
    """A file as the hub describes it."""
    told: dict = {"rfilename": name, "size": len(data), "blobId": blob(data)}
    if is_large(name):
        digest = hashlib.sha256(data).hexdigest()
        told["lfs"] = {"sha256": digest, "size": len(data), "pointerSize": 130}
    return told


def is_large(name: str) -> bool:
    """Whether the hub wants a file apart from the commit."""
    return ".onnx" in name or name.endswith((".png", ".safetensors"))


ROUTES = (
    ("look", "GET", r"/api/models/([^/]+/[^/]+)/revision/([^/?]+)(?:\?.*)?"),
    ("create", "POST", r"/api/repos/create"),
    ("branch", "POST", r"/api/models/([^/]+/[^/]+)/branch/([^/]+)"),
    ("validate", "POST", r"/api/validate-yaml"),
    ("preupload", "POST", r"/api/models/([^/]+/[^/]+)/preupload/([^/]+)"),
    ("batch", "POST", r"/([^/]+/[^/]+)\.git/info/lfs/objects/batch"),
    ("upload", "PUT", r"/upload/([0-9a-f]{64})"),
    ("commit", "POST", r"/api/models/([^/]+/[^/]+)/commit/([^/]+)"),
)


@contextmanager
def receiving(hub: Pushes) -> Iterator[Pushes]:
    """Run the server while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def route(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            for step, method, pattern in ROUTES:
                found = re.fullmatch(pattern, self.path)
                if found and method == self.command:
                    hub.steps.append(step)
                    if step in hub.failing:
                        return self.reply(hub.failing[step])
                    is_open = step in ("look", "upload", "validate")
                    if not is_open and self.headers.get("Authorization") != f"Bearer {TOKEN}":
                        return self.reply(401)
                    return self.takers[step](self, body, *found.groups())
            self.reply(404)

        do_GET = do_POST = do_PUT = route

        def reply(self, status: int, content: object = None, **headers: str) -> None:
            data = b"" if content is None else json.dumps(content).encode()
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key.replace("_", "-"), value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def look(self, _: bytes, repository: str, branch: str) -> None:
            if repository not in hub.repositories:
                return self.reply(404, X_Error_Code="RepoNotFound")
            if branch not in hub.repositories[repository]:
                return self.reply(404, X_Error_Code="RevisionNotFound")
            files = hub.repositories[repository][branch]
            told = [sibling(name, data) for name, data in files.items()]
            self.reply(200, {"id": repository, "sha": "0" * 40, "siblings": told})

        def create(self, body: bytes) -> None:
            asked = json.loads(body)
            repository = f"{asked['organization']}/{asked['name']}"
            if repository in hub.repositories:
                return self.reply(409, {"url": f"{hub.url}/{repository}"})
            hub.repositories[repository] = {"main": {}}
            hub.private[repository] = asked["visibility"] == "private"
            self.reply(200, {"url": f"{hub.url}/{repository}"})

        def branch(self, _: bytes, repository: str, name: str) -> None:
            branches = hub.repositories[repository]
            if name in branches:
                return self.reply(409)
            branches[name] = dict(branches["main"])
            self.reply(200, {})

        def validate(self, _: bytes) -> None:
            self.reply(200, {"errors": [], "warnings": []})

        def preupload(self, body: bytes, repository: str, branch: str) -> None:
            held = hub.repositories[repository][branch]
            self.reply(
                200, {"files": [self.mode(f["path"], held) for f in json.loads(body)["files"]]}
            )

        def mode(self, name: str, held: dict[str, bytes]) -> dict:
            told = {
                "path": name,
                "uploadMode": "lfs" if is_large(name) else "regular",
                "shouldIgnore": False,
            }
            if name in held:
                data = held[name]
                digest = hashlib.sha256(data).hexdigest()
                told["oid"] = digest if is_large(name) else blob(data)
            return told

        def batch(self, body: bytes, _: str) -> None:
            self.reply(
                200, {"objects": [self.action(item) for item in json.loads(body)["objects"]]}
            )

        def action(self, item: dict) -> dict:
            if item["oid"] in hub.uploads:
                return item
            return item | {"actions": {"upload": {"href": f"{hub.url}/upload/{item['oid']}"}}}

        def upload(self, body: bytes, digest: str) -> None:
            assert hashlib.sha256(body).hexdigest() == digest
            hub.uploads[digest] = body
            self.reply(200)

        def commit(self, body: bytes, repository: str, branch: str) -> None:
            files = dict(hub.repositories[repository][branch])
            names = []
            for line in body.splitlines():
                match json.loads(line):
                    case {"key": "file", "value": {"path": name, "content": text}}:
                        files[name] = base64.b64decode(text)
                        names.append(name)
                    case {"key": "lfsFile", "value": {"path": name, "oid": digest}}:
                        files[name] = hub.uploads[digest]
                        names.append(name)
            hub.repositories[repository][branch] = files
            hub.commits.append(names)
            page = f"{hub.url}/{repository}/commit/{'1' * 40}"
            self.reply(200, {"commitUrl": page, "commitOid": "1" * 40})

        takers: ClassVar = {
            "look": look,
            "create": create,
            "branch": branch,
            "validate": validate,
            "preupload": preupload,
            "batch": batch,
            "upload": upload,
            "commit": commit,
        }

    with listening(Handler) as port:
        hub.url = f"http://127.0.0.1:{port}"
        yield hub
