"""Running a model by the standard's own evaluator and in runtimes, on the CPU.

They may end the process that they run in, so that each runs in one of its own.
"""

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import ml_dtypes
import numpy as np
import onnx

from tests.judges.evaluator import evaluate
from tests.runtimes import load

if TYPE_CHECKING:
    import openvino as ov

Arrays: TypeAlias = Sequence[np.ndarray]

# Else a CPU with matrix units for bfloat16 computes float32 in it.
EXACT = {"INFERENCE_PRECISION_HINT": "f32", "EXECUTION_MODE_HINT": "ACCURACY"}


def reference(model: bytes, inputs: Arrays) -> list[np.ndarray]:
    """The outputs by `onnx.reference`, numpy that follows the operators' text."""
    return evaluate(onnx.load_from_string(model), inputs, more=())


def openvino(model: bytes, inputs: Arrays) -> list[np.ndarray]:
    """The outputs in OpenVINO, in the precision of the file."""
    import openvino as ov

    core = ov.Core()
    compiled = core.compile_model(core.read_model(model), "CPU", EXACT)
    request = compiled.create_infer_request()
    names = [value.name for value in onnx.load_from_string(model).graph.input]
    # It leaves out an input that nothing uses.
    kept = {name for each in compiled.inputs for name in each.names}
    outputs = request.infer(
        {name: _tensor(x) for name, x in zip(names, inputs, strict=True) if name in kept}
    )
    return [_array(request.get_output_tensor(i)) for i in range(len(outputs))]


def _array(tensor: "ov.Tensor") -> np.ndarray:
    """The numbers of a tensor; those of bfloat16 come as float16's."""
    numbers = tensor.data.copy()
    kind = tensor.get_element_type().get_type_name()
    return numbers.view(ml_dtypes.bfloat16) if kind == "bf16" else numbers


def _tensor(array: np.ndarray) -> object:
    import openvino as ov

    if array.dtype == ml_dtypes.bfloat16:  # not one of numpy's own, so told by its name here
        tensor = ov.Tensor(ov.Type.bf16, ov.Shape(array.shape))
        tensor.data[...] = array.view(np.float16)  # as which it shows the bits
        return tensor
    return ov.Tensor(np.ascontiguousarray(array).reshape(array.shape))


def onnxruntime(model: bytes, inputs: Arrays) -> list[np.ndarray]:
    """The outputs in ONNX Runtime, with its optimiser."""
    return load.onnxruntime(model)(inputs)


RUNTIMES = {"onnxruntime": onnxruntime, "openvino": openvino, "onnx.reference": reference}
RUNTIMES |= {name: partial(load.once, name) for name in load.RUNTIMES}


class Apart:
    """A process that runs models and may die of one; the next model gets a new process."""

    def __init__(self, runtime: str) -> None:
        self._run = RUNTIMES[runtime]
        self._pool: ProcessPoolExecutor | None = None

    def __call__(self, model: bytes, inputs: Arrays) -> list[np.ndarray] | BaseException:
        """The outputs, or what was raised; `BrokenProcessPool` if the process died."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
        future = self._pool.submit(self._run, model, list(inputs))
        error = future.exception()
        if isinstance(error, BrokenProcessPool):
            self._pool = None
        return future.result() if error is None else error

    def close(self) -> None:
        """End the process."""
        if self._pool is not None:
            self._pool.shutdown()
