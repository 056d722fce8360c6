"""Summarize the structure of an ONNX file: its parts in order, with repeated blocks counted."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_ir as ir

BLOCK_OPERATORS = (
    *("Attention", "Conv", "ConvInteger", "ConvTranspose"),
    *("Erf", "Gelu", "Gemm", "LayerNormalization"),
    *("MatMul", "MatMulInteger", "MatMulNBits", "Relu"),
    *("Resize", "RMSNormalization", "RotaryEmbedding", "Softmax"),
    *("Tanh",),
)
"""Operators by which repeated blocks are recognised.

The operators between them, such as those of shapes, may be in another order from one block to the
next.
"""

MIN_BLOCK_LENGTH = 3
"""The least number of `BLOCK_OPERATORS` in a block.

Shorter patterns repeat by chance.
"""


@dataclass(frozen=True)
class StructurePart:
    """A part of a graph, such as a block, which occurs `times` times in succession.

    `operators` counts the operators of one occurrence.
    """

    times: int
    operators: Counter[str]

    @property
    def marks(self) -> list[tuple[str, int]]:
        """The operators by which the part is recognised (`BLOCK_OPERATORS`), with their counts."""
        return [item for item in self.operators.most_common() if item[0] in BLOCK_OPERATORS]

    @property
    def others(self) -> list[tuple[str, int]]:
        """All other operators, with their counts."""
        return [item for item in self.operators.most_common() if item[0] not in BLOCK_OPERATORS]


def read_structure(file: Path) -> list[StructurePart]:
    """Return the parts of an ONNX file in the order in which it computes them.

    A part is a block that is repeated, or the operators between two such blocks. The operators of a
    repeated block are those of its middle repetition. `Constant` nodes are left out. A file without
    `BLOCK_OPERATORS` is one part.
    """
    nodes = [node.op_type for node in ir.load(file).graph if node.op_type != "Constant"]
    mark_indices = [index for index, name in enumerate(nodes) if name in BLOCK_OPERATORS]
    spans = [*_spans([nodes[index] for index in mark_indices], 0)]
    # A part ends at the first mark of the next one.
    bounds = [0, *mark_indices[1:], len(nodes)]
    parts = []
    for start, period, times in spans:
        first_mark = start + period * (times // 2)
        operators = Counter(nodes[bounds[first_mark] : bounds[first_mark + period]])
        parts.append(StructurePart(times, operators))
    return parts or [StructurePart(1, Counter(nodes))]


def _spans(marks: Sequence[str], offset: int) -> Iterator[tuple[int, int, int]]:
    """Yield (position of the first mark, number of marks, repetitions) for each part of a graph.

    `marks` are the operators by which blocks are recognised, without the operators between them.
    Positions are counted among the marks of the full graph, in which `offset` is the position of
    `marks[0]`. The marks are split at their longest repetition. The parts before and after it are
    split in the same way.
    """
    if not marks:
        return
    start, period, times = _longest_repetition(marks)
    if times == 1:
        yield offset, len(marks), 1
        return
    end = start + period * times
    yield from _spans(marks[:start], offset)
    yield offset + start, period, times
    yield from _spans(marks[end:], offset + end)


def _longest_repetition(nodes: Sequence[str]) -> tuple[int, int, int]:
    """Return the start, period and count of the repetition that covers the most nodes.

    Of several, the one with the shortest period is taken. If nothing is repeated, return `(0,
    len(nodes), 1)`.
    """
    kinds = {name: number for number, name in enumerate(sorted({*nodes}))}
    codes = np.array([kinds[name] for name in nodes])
    best, covered = (0, len(nodes), 1), 0
    for period in range(MIN_BLOCK_LENGTH, len(nodes) // 2 + 1):
        same = np.concatenate(([False], codes[:-period] == codes[period:], [False]))
        starts, ends = np.flatnonzero(np.diff(same)).reshape(-1, 2).T
        times = (ends - starts) // period + 1
        longest = int(np.argmax(times)) if len(times) else 0
        if len(times) and times[longest] > 1 and period * times[longest] > covered:
            covered = period * int(times[longest])
            best = int(starts[longest]), period, int(times[longest])
    return best
