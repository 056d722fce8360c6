"""Count how often a request passes from file to file of `zoo` and `weights`.

    python -m tests.walks export
    python -m tests.walks embed --list

A step is a pair of files: a function of the first calls a function of the second that no file has
called before. Repeated calls count once, and so do several functions of one file. Calls below a
hidden function are not counted. Functions of the converter, of modules that hold networks and of
modules during their import are hidden. Functions of other libraries are transparent: a callback
counts as called by the function that called the library. A return is a step to a file that was
visited before. Threads that start meanwhile belong to the walk, and begin without a caller.
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
from typing import Any

from tests.command import call_zoo
from zoo.images.photograph import photograph

ROOT = Path(__file__).parents[1]
COUNTED = ("zoo/", "weights/")
HIDDEN = ("converter/", "zoo/architectures/")
DESCRIBED = ("architecture.py", "entry.py", "kinds.py")
"""Modules of `zoo/architectures` that hold no network."""


@dataclass
class Walk:
    """The steps of a request in their order, as pairs of a calling and a called file."""

    steps: dict[tuple[str, str], None] = field(default_factory=dict)
    called: set[CodeType] = field(default_factory=set)
    first: str = ""

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

    def thread(self) -> Callable[[FrameType, str, Any], None]:
        """Return a function that follows the calls of one thread, for `sys.setprofile`."""
        callers: list[str | None] = []  # by frame; None below a hidden function

        def follow(frame: FrameType, event: str, argument: Any) -> None:
            if event == "call":
                callers.append(self._enter(frame.f_code, callers[-1] if callers else ""))
            elif event == "return" and callers:
                callers.pop()

        return follow

    def _enter(self, code: CodeType, caller: str | None) -> str | None:
        """Record a call. Return the file of the innermost counted function."""
        if caller is None or code.co_name == "<module>":
            return None
        file = counted_file(code)
        if file == "":
            return caller
        if file is not None:
            self.first = self.first or file
            if caller and file != caller and code not in self.called:
                self.steps[caller, file] = None
            self.called.add(code)
        return file


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
    sys.setprofile(walk.thread())
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


def main() -> None:
    """Print the numbers of a request, and with `--list` each step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("request", choices=REQUESTS)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    with TemporaryDirectory() as scratch:
        run = REQUESTS[options.request](Path(scratch))
        with walking() as walk:
            code = run()
    assert code == 0, code
    if options.list:
        for caller, file in walk.steps:
            sys.stdout.write(f"{caller} -> {file}\n")
    for nouns, walked in (("files", walk), ("packages", walk.packages)):
        sys.stdout.write(
            f"{len(walked.steps)} steps between {len(walked.files)} {nouns}, "
            f"{walked.returns} returns\n"
        )


if __name__ == "__main__":
    main()
