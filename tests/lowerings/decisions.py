"""Record which sides of the conditional jumps in `converter/lower` were taken, from the bytecode.

A decision is a conditional jump: an ``if``, a conditional expression, an operand of ``and`` or
``or``, or a condition of a comprehension. Line and branch coverage see only the first of these.
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
    """A conditional jump of a function: its source, and the bytecode offsets of its two sides."""

    code: CodeType
    offset: int
    sides: tuple[int, int]
    text: str

    def __str__(self) -> str:
        return self.text


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those of its nested functions."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested_codes(constant)


def decisions_of(module: ModuleType) -> list[Decision]:
    """Return all decisions of a module's functions, except those of assertions."""
    path = Path(str(module.__file__))
    text = path.read_text(encoding="utf-8")
    module_code = compile(text, str(path), "exec", dont_inherit=True)
    lines = text.splitlines()
    decisions = []
    for code in nested_codes(module_code):
        if code is module_code:
            continue
        steps = list(dis.get_instructions(code))
        for step, next_step in pairwise(steps):
            if "JUMP" not in step.opname or "IF" not in step.opname:
                continue
            if next_step.opname == "LOAD_ASSERTION_ERROR":
                continue
            decisions.append(
                Decision(
                    code,
                    step.offset,
                    (next_step.offset, step.argval),
                    _source_text(step, path, lines),
                )
            )
    return decisions


def _source_text(step: dis.Instruction, path: Path, lines: list[str]) -> str:
    positions = step.positions
    if positions is None or positions.lineno is None:
        return path.name
    line = lines[positions.lineno - 1]
    text = (
        line[positions.col_offset : positions.end_col_offset]
        if positions.lineno == positions.end_lineno
        else line.strip()
    )
    return f"{path.name}:{positions.lineno}: {text}"


Key = tuple[str, int, str, int]
"""The file, first line and name of a function, and the offset of an instruction."""


def _key(code: CodeType, offset: int) -> Key:
    return code.co_filename, code.co_firstlineno, code.co_name, offset


class Recorder:
    """Recorder of the sides of decisions that are taken by functions under `watch`."""

    def __init__(self, modules: list[ModuleType]) -> None:
        self.decisions = [decision for module in modules for decision in decisions_of(module)]
        self._jumps = {_key(d.code, d.offset) for d in self.decisions}
        self._files = {str(module.__file__) for module in modules}
        self.taken: set[tuple[Key, int]] = set()

    def watch(self, fn: Callable[[], T]) -> T:
        """Call `fn`, record the decisions in it, and return its result."""
        previous = sys.gettrace()
        sys.settrace(self._called)
        try:
            return fn()
        finally:
            sys.settrace(previous)

    def missing(self) -> list[str]:
        """Return sentences about decisions with a side that was never taken."""
        sentences = []
        for decision in self.decisions:
            key = _key(decision.code, decision.offset)
            names = ("the jump not taken", "the jump taken")
            sentences += [
                f"{decision} [{name}]"
                for side, name in zip(decision.sides, names, strict=True)
                if (key, side) not in self.taken
            ]
        return sentences

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
