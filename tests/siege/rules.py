"""What must hold of any command, whatever it was given."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.killed import Outcome
from tests.siege.world import State

SECONDS, MEGABYTES = 60, 2500
"""A command on these small files takes no longer and no more, the process it is forked from
included."""

CODES = (0, 1, 2)

STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""What a terminal obeys, but for line feeds and tabs."""


SENTENCE_OF_A_BUILD = re.compile(r"^vit_digits: .*[.?]$", re.MULTILINE)
"""A build has a sentence for each model."""


class Said(NamedTuple):
    """What a command printed."""

    out: str
    err: str

    @classmethod
    def of(cls, output: Path) -> "Said":
        """What it left beside `output`; errors are shown and not hidden."""
        files = (output.with_name(output.name + kind) for kind in (".out", ".err"))
        return cls(*(file.read_text(errors="backslashreplace") for file in files))


def wrong_words(outcome: Outcome, said: Said) -> Iterator[str]:
    """What is wrong with how a command ended and what it said."""
    if outcome.status not in CODES:
        yield f"ended with {outcome.status}"
    if outcome.seconds > SECONDS:
        yield f"took {outcome.seconds:.0f} s"
    if outcome.megabytes > MEGABYTES:
        yield f"took {outcome.megabytes:.0f} MB"
    if "Traceback" in said.err:
        yield "a traceback"
    for text in said:
        if found := STEERING.search(text.replace("\r", "")):
            yield f"prints {found[0]!r}"
    errors = [line for line in said.err.splitlines() if line.startswith("error: ")]
    errors = errors or SENTENCE_OF_A_BUILD.findall(said.out + said.err)
    if outcome.status == 2 and len(errors) != 1 and '"error": "' not in said.out:
        yield f"{len(errors)} sentences"
    if errors and not errors[-1].endswith((".", "?")):
        yield f"no whole sentence: {errors[-1]}"


def lost(before: State, after: State) -> Iterator[str]:
    """What was there and is not, or is another."""
    for path, kind in before.items():
        if after.get(path) != kind:
            yield f"{path} was {kind[:12]}, and is {after.get(path, 'gone')[:12]}"


def left(before: State, after: State) -> Iterator[str]:
    """What a command that failed left behind, but for folders to write to."""
    for path, kind in after.items():
        if path not in before and kind != "d":
            yield f"left {path}"
