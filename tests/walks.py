"""Count how often a request passes from file to file of `zoo` and `weights`.

    python -m tests.walks export
    python -m tests.walks embed --list

A step is a pair of files: a function of the first calls a function of the second that no file has
called before. Repeated calls count once, and so do several functions of one file. Calls below a
hidden function are not counted. Functions of the converter, of modules that hold networks and of
modules during their import are hidden. Functions of other libraries are transparent: a callback
counts as called by the function that called the library. A return is a step to a file that was
visited before. Threads that start meanwhile belong to the walk, and begin without a caller.

The walk of ``embed`` is also counted in parts: the command line, the opening of the network, and
the request of a picture, which is the rest of `zoo.embed`. A part begins with a function of
`PARTS`, and has the calls below it that belong to no other part. The step to this function belongs
to the part of its caller. Each part counts on its own which functions were called before.
"""

import argparse
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any, NamedTuple

from tests.command import call_zoo
from zoo.images.photograph import photograph

ROOT = Path(__file__).parents[1]
COUNTED = ("zoo/", "weights/")
HIDDEN = ("converter/", "zoo/architectures/")
DESCRIBED = ("architecture.py", "entry.py", "kinds.py")
"""Modules of `zoo/architectures` that hold no network."""


COMMAND, PICTURE, NETWORK = "command line", "a picture's request", "opening the network"
PARTS = {
    ("zoo/apps/embed/calls.py", "embed"): PICTURE,
    ("zoo/apps/embed/network.py", "find_network"): NETWORK,
    ("zoo/apps/embed/network.py", "lane_session"): NETWORK,
    ("zoo/apps/embed/network.py", "Runner.__init__"): NETWORK,
}
"""The part of a walk that begins with a function."""


class Caller(NamedTuple):
    """The innermost counted function of a thread, by its file, and the part of its walk.

    The file is empty at the start of a thread, and None below a hidden function.
    """

    file: str | None
    part: str


@dataclass
class Walk:
    """The steps of a request in their order, as pairs of a calling and a called file.

    - `called`: the functions that were called.
    - `parts`: the walks of the parts by name.
    - `part`: the part in which threads start, which is that of the thread that is followed first.
    """

    steps: dict[tuple[str, str], None] = field(default_factory=dict)
    called: set[CodeType] = field(default_factory=set)
    first: str = ""
    parts: dict[str, "Walk"] = field(default_factory=dict)
    part: str = COMMAND

    @property
    def files(self) -> set[str]:
        """The files that were visited."""
        return {self.first, *(file for _, file in self.steps)}

    @property
    def returns(self) -> int:
        """Steps to files that were visited before."""
        return len(self.steps) - len(self.files) + 1

    @property
    def packages(self) -> "Walk":
        """The same walk between packages, without the steps inside of a folder."""
        walk = Walk(first=str(Path(self.first).parent))
        for caller, file in self.steps:
            pair = (str(Path(caller).parent), str(Path(file).parent))
            if pair[0] != pair[1]:
                walk.steps[pair] = None
        return walk

    def thread(self, is_first: bool = False) -> Callable[[FrameType, str, Any], None]:
        """Return a function that follows the calls of one thread, for `sys.setprofile`."""
        start = Caller("", self.part)
        callers: list[Caller] = []  # by frame

        def follow(frame: FrameType, event: str, argument: Any) -> None:
            if event == "call":
                callers.append(self._enter(frame.f_code, callers[-1] if callers else start))
            elif event == "return" and callers:
                callers.pop()
            if is_first and event in ("call", "return"):
                self.part = (callers[-1] if callers else start).part

        return follow

    def _enter(self, code: CodeType, caller: Caller) -> Caller:
        """Record a call in the walk and in its part. Return the caller of the calls below it."""
        if caller.file is None or code.co_name == "<module>":
            return Caller(None, caller.part)
        file = counted_file(code)
        if file == "":
            return caller
        if file is None:
            return Caller(None, caller.part)
        part = PARTS.get((file, code.co_qualname), caller.part)
        self._record(code, caller.file, file)
        self._part(caller.part)._record(code, caller.file, file)
        if part != caller.part:
            self._part(part)._record(code, "", file)
        return Caller(file, part)

    def _part(self, name: str) -> "Walk":
        """Return the walk of a part."""
        return self.parts.setdefault(name, Walk())

    def _record(self, code: CodeType, caller: str, file: str) -> None:
        """Record a call of a function in a file. An empty `caller` makes no step."""
        self.first = self.first or file
        if caller and file != caller and code not in self.called:
            self.steps[caller, file] = None
        self.called.add(code)


def counted_file(code: CodeType) -> str | None:
    """Return the path of a function's file; None if it is hidden, empty if of another library."""
    path = Path(code.co_filename)
    if not path.is_relative_to(ROOT):
        return ""
    name = path.relative_to(ROOT).as_posix()
    if name.startswith(HIDDEN) and path.name not in DESCRIBED:
        return None
    return name if name.startswith(COUNTED) else ""


@contextmanager
def walking() -> Generator[Walk]:
    """Record the walk of this thread and of those that start while the block runs."""
    walk = Walk()

    def start_thread(frame: FrameType, event: str, argument: Any) -> None:
        follow = walk.thread()
        sys.setprofile(follow)
        follow(frame, event, argument)

    threading.setprofile(start_thread)
    sys.setprofile(walk.thread(is_first=True))
    try:
        yield walk
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def export(folder: Path) -> Callable[[], int]:
    """Return a function that exports a small network from a file."""
    file = str(ROOT / "zoo" / "data" / "vit_digits.safetensors")
    options = ["export", "vit_digits", "--weights", file, "--out", str(folder), "--force"]
    return lambda: call_zoo(*options)


def embed(folder: Path) -> Callable[[], int]:
    """Return a function that embeds one picture with a small network from a file."""
    network, pictures = folder / "vit_digits.onnx", folder / "pictures"
    pictures.mkdir()
    photograph().save(pictures / "one.png")
    assert call_zoo("export", "vit_digits", "--out", network) == 0
    options = ["embed", str(pictures), "--model", str(network)]
    options += ["--out", str(folder / "vectors.lance")]
    return lambda: call_zoo(*options)


REQUESTS = {"export": export, "embed": embed}


def walk_request(request: str, folder: Path) -> Walk:
    """Run one of the `REQUESTS` in an empty folder, and return its walk."""
    run = REQUESTS[request](folder)
    with walking() as walk:
        code = run()
    assert code == 0, code
    return walk


def print_walk(title: str, walk: Walk, lists_steps: bool) -> None:
    """Print the numbers of a walk between files and between packages, perhaps after its steps."""
    if lists_steps:
        for caller, file in walk.steps:
            sys.stdout.write(f"{caller} -> {file}\n")
    for nouns, walked in (("files", walk), ("packages", walk.packages)):
        sys.stdout.write(
            f"{title}{len(walked.steps)} steps between {len(walked.files)} {nouns}, "
            f"{walked.returns} returns\n"
        )


def main() -> None:
    """Print the numbers of a request and of its parts, and with `--list` each step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("request", choices=REQUESTS)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    with TemporaryDirectory() as scratch:
        walk = walk_request(options.request, Path(scratch))
    print_walk("", walk, options.list and len(walk.parts) == 1)
    if len(walk.parts) > 1:
        for name, part in walk.parts.items():
            print_walk(f"{name}: ", part, options.list)


if __name__ == "__main__":
    main()
