"""Rules for every command: exit codes, time and memory, printed text, lost and left files."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.killed import Outcome
from tests.siege.world import State

SECONDS, MEGABYTES = 60, 2500
"""Limits of time and memory of a command on these small files. The memory includes the process from
which it is forked."""

CODES = (0, 1, 2)

CONTROL_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
"""Characters that control a terminal, apart from line feeds and tabs."""


SENTENCE_OF_BUILD = re.compile(r"^vit_digits: .*[.?]$", re.MULTILINE)
"""The sentence that a build prints for a model."""


class Printed(NamedTuple):
    """The text that a command printed on stdout and stderr."""

    out: str
    err: str

    @classmethod
    def of(cls, output: Path) -> "Printed":
        """Read the files `output.out` and `output.err`. Undecodable bytes are shown as escapes."""
        files = (output.with_name(output.name + suffix) for suffix in (".out", ".err"))
        return cls(*(file.read_text(errors="backslashreplace") for file in files))


def find_wrong_endings(outcome: Outcome, printed: Printed) -> Iterator[str]:
    """Yield the rules that the end and the text of a command break."""
    if outcome.status not in CODES:
        yield f"ended with {outcome.status}"
    if outcome.seconds > SECONDS:
        yield f"took {outcome.seconds:.0f} s"
    if outcome.megabytes > MEGABYTES:
        yield f"took {outcome.megabytes:.0f} MB"
    if "Traceback" in printed.err:
        yield "prints a traceback"
    for text in printed:
        if control := CONTROL_CHARACTERS.search(text.replace("\r", "")):
            yield f"prints {control[0]!r}"
    errors = [line for line in printed.err.splitlines() if line.startswith("error: ")]
    errors = errors or SENTENCE_OF_BUILD.findall(printed.out + printed.err)
    if outcome.status == 2 and len(errors) != 1 and '"error": "' not in printed.out:
        yield f"{len(errors)} sentences of errors"
    if errors and not errors[-1].endswith((".", "?")):
        yield f"incomplete sentence: {errors[-1]}"


def find_lost_files(before: State, after: State) -> Iterator[str]:
    """Yield the paths that were removed or changed."""
    for path, content in before.items():
        if after.get(path) != content:
            yield f"{path} was {content[:12]}, and is {after.get(path, 'missing')[:12]}"


def find_left_files(before: State, after: State) -> Iterator[str]:
    """Yield the paths that a failed command left, except folders."""
    for path, content in after.items():
        if path not in before and content != "d":
            yield f"left {path}"
