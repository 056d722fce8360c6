"""A server on loopback that accepts commits as a model hub does, or refuses them at a chosen
step."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.hub_server import Handler, listening

TOKEN = "t0ken"


@dataclass
class Pushes:
    """The state of the server. `repositories` are files by branch and repository. `failing` are the
    statuses with which it refuses a step, such as create or preupload, and `steps` are the steps
    that it was asked for."""

    repositories: dict[str, dict[str, dict[str, bytes]]] = field(default_factory=dict)
    private: dict[str, bool] = field(default_factory=dict)
    commits: list[list[str]] = field(default_factory=list)
    uploads: dict[str, bytes] = field(default_factory=dict)
    failing: dict[str, int] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)
    url: str = ""


def names_of(data: bytes) -> tuple[str, str]:
    """Return git's name of a content, and its sha256."""
    blob = b"blob %d\0" % len(data) + data
    return hashlib.sha1(blob, usedforsecurity=False).hexdigest(), hashlib.sha256(data).hexdigest()


def is_large(name: str) -> bool:
    """Return whether the hub stores a file apart from the commit."""
    return ".onnx" in name or name.endswith((".png", ".safetensors"))


def sibling(name: str, data: bytes) -> dict:
    """Return a file as the hub describes it."""
    blob, digest = names_of(data)
    large = {"lfs": {"sha256": digest, "size": len(data), "pointerSize": 130}}
    description = {"rfilename": name, "size": len(data), "blobId": blob}
    return description | (large if is_large(name) else {})


def mode(name: str, files: dict[str, bytes]) -> dict:
    """Return how the client has to send a file, and the hub's name of the content that it has
    already."""
    known = {"oid": names_of(files[name])[is_large(name)]} if name in files else {}
    upload_mode = "lfs" if is_large(name) else "regular"
    return {"path": name, "uploadMode": upload_mode, "shouldIgnore": False} | known


MODEL = "/api/models/([^/]+/[^/]+)"
ROUTES = {
    "look": rf"GET {MODEL}/revision/([^/?]+)(?:\?.*)?",
    "create": "POST /api/repos/create",
    "branch": f"POST {MODEL}/branch/([^/]+)",
    "validate": "POST /api/validate-yaml",
    "preupload": f"POST {MODEL}/preupload/([^/]+)",
    "batch": r"POST /([^/]+/[^/]+)\.git/info/lfs/objects/batch",
    "upload": "PUT /upload/([0-9a-f]{64})",
    "commit": f"POST {MODEL}/commit/([^/]+)",
}
"""The steps of a push, each with a pattern of its requests. The method `take_STEP` of the server
receives the groups of the pattern."""


@contextmanager
def receiving(hub: Pushes) -> Iterator[Pushes]:
    """Run the server while the block runs."""

    class Receiving(Handler):
        def route(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            for step, pattern in ROUTES.items():
                if request_match := re.fullmatch(pattern, f"{self.command} {self.path}"):
                    hub.steps.append(step)
                    if step in hub.failing:
                        return self.reply(hub.failing[step], {})
                    is_anonymous = step in ("look", "upload", "validate")
                    if not is_anonymous and self.headers.get("Authorization") != f"Bearer {TOKEN}":
                        return self.reply(401, {})
                    return getattr(self, f"take_{step}")(body, *request_match.groups())
            self.reply(404, {})

        do_GET = do_POST = do_PUT = route

        def tell(self, content: object, status: int = 200) -> None:
            headers = {"Content-Type": "application/json"}
            self.reply(status, headers, json.dumps(content).encode())

        def take_look(self, _: bytes, repository: str, branch: str) -> None:
            branches = hub.repositories.get(repository, {})
            if branch not in branches:
                missing = "Revision" if branches else "Repo"
                return self.reply(404, {"X-Error-Code": f"{missing}NotFound"})
            siblings = [sibling(name, data) for name, data in branches[branch].items()]
            self.tell({"id": repository, "sha": "0" * 40, "siblings": siblings})

        def take_create(self, body: bytes) -> None:
            request = json.loads(body)
            repository = f"{request['organization']}/{request['name']}"
            answer = {"url": f"{hub.url}/{repository}"}
            if repository in hub.repositories:
                return self.tell(answer, 409)
            hub.repositories[repository] = {"main": {}}
            # huggingface-hub before 1.10 sends `private`, later versions send `visibility`.
            hub.private[repository] = request.get("private", request.get("visibility") == "private")
            self.tell(answer)

        def take_branch(self, _: bytes, repository: str, name: str) -> None:
            branches = hub.repositories[repository]
            branches[name] = dict(branches["main"])
            self.tell({})

        def take_validate(self, _: bytes) -> None:
            self.tell({"errors": [], "warnings": []})

        def take_preupload(self, body: bytes, repository: str, branch: str) -> None:
            files = hub.repositories[repository][branch]
            self.tell({"files": [mode(f["path"], files) for f in json.loads(body)["files"]]})

        def take_batch(self, body: bytes, _: str) -> None:
            objects = json.loads(body)["objects"]
            for item in objects:
                if item["oid"] not in hub.uploads:
                    item["actions"] = {"upload": {"href": f"{hub.url}/upload/{item['oid']}"}}
            self.tell({"objects": objects})

        def take_upload(self, body: bytes, digest: str) -> None:
            assert hashlib.sha256(body).hexdigest() == digest
            hub.uploads[digest] = body
            self.reply(200, {})

        def take_commit(self, body: bytes, repository: str, branch: str) -> None:
            files, names = hub.repositories[repository][branch], []
            for line in map(json.loads, body.splitlines()):
                match line:
                    case {"key": "file", "value": {"path": name, "content": text}}:
                        files[name] = base64.b64decode(text)
                    case {"key": "lfsFile", "value": {"path": name, "oid": digest}}:
                        files[name] = hub.uploads[digest]
                    case _:
                        continue
                names.append(name)
            hub.commits.append(names)
            page = f"{hub.url}/{repository}/commit/{'1' * 40}"
            self.tell({"commitUrl": page, "commitOid": "1" * 40})

    with listening(Receiving) as port:
        hub.url = f"http://127.0.0.1:{port}"
        yield hub
