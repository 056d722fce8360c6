"""The standard's own evaluator, with what it lacks of the operators that files of ours use."""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun


class Pad(OpRun):
    """By its text `pads` may be negative and then remove elements, which the evaluator refuses."""

    op_domain = ""

    def _run(self, x, pads, value=None, axes=None, mode="constant"):  # type: ignore[no-untyped-def]
        axes = range(x.ndim) if axes is None else [int(a) % x.ndim for a in axes]
        before, after = (np.zeros(x.ndim, int) for _ in range(2))
        for place, axis in enumerate(axes):
            before[axis], after[axis] = pads[place], pads[place + len(axes)]
        keep = [
            slice(max(0, -int(b)), size - max(0, -int(a)))
            for b, a, size in zip(before, after, x.shape, strict=True)
        ]
        widths = [(max(0, int(b)), max(0, int(a))) for b, a in zip(before, after, strict=True)]
        how = {"constant_values": 0 if value is None else value} if mode == "constant" else {}
        return (np.pad(x[tuple(keep)], widths, mode=mode, **how).astype(x.dtype),)


def evaluate(
    model: onnx.ModelProto, inputs: Sequence[np.ndarray], more: Sequence[type[OpRun]] = (Pad,)
) -> list[np.ndarray]:
    """The outputs of a model."""
    session = ReferenceEvaluator(model, new_ops=[*more])
    with np.errstate(all="ignore"):
        found = session.run(None, dict(zip(session.input_names, inputs, strict=True)))
    return [np.asarray(x) for x in found]
