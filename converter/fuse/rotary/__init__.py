"""Rotary position embedding [Su et al., arXiv:2104.09864], half-split and interleaved.

    rotary(x, cos, sin) = join(a * cos - b * sin, b * cos + a * sin)

where ``a`` and ``b`` are the halves of x along its width, ``[:n]`` and ``[n:]``, or its even and
odd elements where it is interleaved, and the tables ``cos`` and ``sin`` [positions, n] depend on
one other axis. It is written so (``pairwise``), or as ``x * cos + rotate(x) * sin`` with tables of
the full width (``turned``), the halves of which have to be shown to be equal (``tables``). The root
is the last sum or the joining of the halves (``halves``); then the node is written (``build``).
"""

from __future__ import annotations

from converter.fuse.match import Uses, proved
from converter.fuse.rotary import pairwise, rotary_build, turned
from converter.fuse.rotary.rotary_build import Rotation
from converter.ir import Node, ops


def prove_rotary(node: Node, uses: Uses) -> Rotation | str | None:
    return (
        turned.prove_turned(node, uses)
        if node.op is ops.add
        else pairwise.prove_pairwise(node, uses)
    )


ROTARY = proved(
    "RotaryEmbedding",
    (ops.add, ops.concatenate, ops.reshape),
    prove_rotary,
    rotary_build.build_rotary,
)
