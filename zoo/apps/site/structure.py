"""The coarse structure of an ONNX file: its parts in order, blocks that repeat as one of them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_ir as ir

MARKS = (
    *("Attention", "Conv", "ConvInteger", "ConvTranspose"),
    *("Erf", "Gelu", "Gemm", "LayerNormalization"),
    *("MatMul", "MatMulInteger", "MatMulNBits", "Relu"),
    *("Resize", "RMSNormalization", "RotaryEmbedding", "Softmax"),
    *("Tanh",),
)
"""Operators that blocks are told by. What lies between, such as that of shapes, may come in another
order from one block to the next."""

SHORTEST = 3
"""Marks of a block: shorter patterns repeat everywhere and mean nothing."""


@dataclass(frozen=True)
class StructurePart:
    """Neighbouring operators, most of a kind first, which come `times` one after another."""

    times: int
    operators: Counter[str]

    @property
    def marks(self) -> list[tuple[str, int]]:
        """Operators that the part is told by, and how many there are."""
        return [each for each in self.operators.most_common() if each[0] in MARKS]

    @property
    def others(self) -> list[tuple[str, int]]:
        """All others."""
        return [each for each in self.operators.most_common() if each[0] not in MARKS]


def structure(file: Path) -> list[StructurePart]:
    """The parts of a file, in the order in which it computes them.

    Of a block that repeats the operators are those of the one in the middle.
    """
    nodes = [node.op_type for node in ir.load(file).graph if node.op_type != "Constant"]
    places = [place for place, name in enumerate(nodes) if name in MARKS]
    spans = [*_spans([nodes[place] for place in places], 0)]
    # Parts meet where the later one has its first mark.
    bounds = [0, *places[1:], len(nodes)]
    parts = []
    for start, period, times in spans:
        begin = start + period * (times // 2)
        operators = Counter(nodes[bounds[begin] : bounds[begin + period]])
        parts.append(StructurePart(times, operators))
    return parts or [StructurePart(1, Counter(nodes))]


def _spans(marks: Sequence[str], begin: int) -> Iterator[tuple[int, int, int]]:
    """First mark, marks and times: of what comes before the longest repetition, of that itself, and
    of what follows."""
    if not marks:
        return
    start, period, times = _longest_repetition(marks)
    if times == 1:
        yield begin, len(marks), 1
        return
    end = start + period * times
    yield from _spans(marks[:start], begin)
    yield begin + start, period, times
    yield from _spans(marks[end:], begin + end)


def _longest_repetition(nodes: Sequence[str]) -> tuple[int, int, int]:
    """Where the repetition begins that has most operators, its period, and how often it comes;
    of several the one with the shortest period. Once, if nothing repeats."""
    kinds = {name: number for number, name in enumerate(sorted({*nodes}))}
    codes = np.array([kinds[name] for name in nodes])
    best, most = (0, len(nodes), 1), 0
    for period in range(SHORTEST, len(nodes) // 2 + 1):
        same = np.concatenate(([False], codes[:-period] == codes[period:], [False]))
        starts, ends = np.flatnonzero(np.diff(same)).reshape(-1, 2).T
        times = (ends - starts) // period + 1
        longest = int(np.argmax(times)) if len(times) else 0
        if len(times) and times[longest] > 1 and period * times[longest] > most:
            most = period * int(times[longest])
            best = int(starts[longest]), period, int(times[longest])
    return best
