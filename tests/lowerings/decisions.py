"""Which sides of the decisions in `converter/lower` were taken, told from the bytecode that ran.

A decision is a conditional jump: an ``if``, a conditional expression, an operand of ``and`` or
``or``, a condition of a comprehension. Coverage by lines or branches sees only the first of these.
"""

import dis
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Decision:
    """A conditional jump of a function: its source, and where its two sides go on."""

    code: CodeType
    offset: int
    sides: tuple[int, int]
    place: str

    def __str__(self) -> str:
        return self.place


def codes(code: CodeType) -> Iterator[CodeType]:
    """A code object, and those of the functions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def decisions_of(module: ModuleType) -> list[Decision]:
    """All decisions of a module's functions, but for assertions, of which one side never runs."""
    path = Path(str(module.__file__))
    text = path.read_text(encoding="utf-8")
    whole = compile(text, str(path), "exec", dont_inherit=True)
    lines = text.splitlines()
    found = []
    for code in codes(whole):
        if code is whole:
            continue
        steps = list(dis.get_instructions(code))
        for step, following in pairwise(steps):
            if "JUMP" not in step.opname or "IF" not in step.opname:
                continue
            if following.opname == "LOAD_ASSERTION_ERROR":
                continue
            found.append(
                Decision(
                    code, step.offset, (following.offset, step.argval), _place(step, path, lines)
                )
            )
    return found


def _place(step: dis.Instruction, path: Path, lines: list[str]) -> str:
    at = step.positions
    if at is None or at.lineno is None:
        return path.name
    line = lines[at.lineno - 1]
    text = line[at.col_offset : at.end_col_offset] if at.lineno == at.end_lineno else line.strip()
    return f"{path.name}:{at.lineno}: {text}"


Key = tuple[str, int, str, int]
"""Where a function is, and its name, and an instruction of it."""


def _key(code: CodeType, offset: int) -> Key:
    return code.co_filename, code.co_firstlineno, code.co_name, offset


class Recorder:
    """Records the sides of decisions that functions take while it watches."""

    def __init__(self, modules: list[ModuleType]) -> None:
        self.decisions = [each for module in modules for each in decisions_of(module)]
        self._jumps = {_key(d.code, d.offset) for d in self.decisions}
        self._files = {str(module.__file__) for module in modules}
        self.taken: set[tuple[Key, int]] = set()

    def watch(self, fn: Callable[[], T]) -> T:
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            return fn()
        finally:
            sys.settrace(before)

    def missing(self) -> list[str]:
        """The decisions of which a side was never taken, with the side."""
        found = []
        for each in self.decisions:
            key = _key(each.code, each.offset)
            names = ("the jump not taken", "the jump taken")
            found += [
                f"{each} [{name}]"
                for side, name in zip(each.sides, names, strict=True)
                if (key, side) not in self.taken
            ]
        return found

    def _called(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in self._files:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        last: Key | None = None

        def step(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal last
            if event == "opcode":
                if last is not None:
                    self.taken.add((last, frame.f_lasti))
                key = _key(frame.f_code, frame.f_lasti)
                last = key if key in self._jumps else None
            return step

        return step
