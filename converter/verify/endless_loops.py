"""Leave out samples on which a loop of the program does not end, or takes too many turns.

A program such as ``while_loop(lambda a: a < 10, lambda a: a * 2, x)`` never ends for zeros, neither
in JAX nor in ONNX Runtime.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from converter.errors import CheckError
from converter.frontend.trace import source_line
from converter.ir import Graph, ops
from converter.ir.evaluation import evaluate_bounded, run_node
from converter.verify.branches import Probe

Sample = tuple[str, list[np.ndarray]]
"""Name and inputs of a sample."""

MAX_TURNS = 1 << 16
"""Largest number of turns of a ``while`` loop on a sample. With a body of two nodes, ONNX Runtime
takes 0.3 s for them."""


def keep_ending_samples(
    traced: Graph, params: Mapping[str, Any], probe: Probe, samples: Sequence[Sample]
) -> tuple[list[Sample], list[str]]:
    """Return the samples on which every ``while`` loop ends within ``MAX_TURNS`` turns, and a
    sentence for each other sample.

    Arguments:
        traced: the graph as it was traced.
        params: values of the parameters by name.
        probe: the probe of the graph. A sample with a valid observation ends.
        samples: the samples.

    Raises:
        CheckError: there are other samples only.
    """
    loops = [node for node in traced.walk() if node.op is ops.while_]
    if not loops:
        return list(samples), []
    lines = " or ".join(dict.fromkeys(map(source_line, loops)))
    kept, sentences = list[Sample](), list[str]()
    for name, arrays in samples:
        if probe(arrays).is_valid or _ends(traced, params, arrays):
            kept.append((name, arrays))
        else:
            sentences.append(
                f"the loop at {lines} did not end within {MAX_TURNS:,} turns on {name} inputs, "
                "which are left out"
            )
    if not kept:
        raise CheckError(
            f"the loop at {lines} takes more than {MAX_TURNS:,} turns, or never ends, on all drawn "
            "inputs: pass inputs on which it takes fewer turns"
        )
    return kept, sentences


def _ends(traced: Graph, params: Mapping[str, Any], arrays: Sequence[np.ndarray]) -> bool:
    """Return True if every ``while`` loop of a graph ends within ``MAX_TURNS`` turns on these
    inputs."""
    _, turns = evaluate_bounded(traced, arrays, params, run_node, MAX_TURNS + 1)
    return int(turns) <= MAX_TURNS
