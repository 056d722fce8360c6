"""Running a model in ONNX's reference evaluator and in runtimes, on the CPU.

A runtime may end the process that it runs in, so that each runs in a separate process.
"""

import multiprocessing
import signal
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

# Without these settings, a CPU with matrix units for bfloat16 computes float32 in bfloat16.
EXACT = {"INFERENCE_PRECISION_HINT": "f32", "EXECUTION_MODE_HINT": "ACCURACY"}


def reference(model: bytes, inputs: Arrays) -> list[np.ndarray]:
    """Return the outputs of `onnx.reference`, which follows the text of the standard with numpy."""
    return evaluate(onnx.load_from_string(model), inputs, replaced=())


def openvino(model: bytes, inputs: Arrays) -> list[np.ndarray]:
    """Return the outputs of OpenVINO, in the precision of the file."""
    import openvino as ov

    core = ov.Core()
    compiled = core.compile_model(core.read_model(model), "CPU", EXACT)
    request = compiled.create_infer_request()
    names = [value.name for value in onnx.load_from_string(model).graph.input]
    # The compiled model has no inputs that no node uses.
    input_names = {name for compiled_input in compiled.inputs for name in compiled_input.names}
    outputs = request.infer(
        {name: _tensor(x) for name, x in zip(names, inputs, strict=True) if name in input_names}
    )
    return [_array(request.get_output_tensor(i)) for i in range(len(outputs))]


def _array(tensor: "ov.Tensor") -> np.ndarray:
    """Return the array of a tensor; OpenVINO gives bits of bfloat16 as float16."""
    values = tensor.data.copy()
    dtype = tensor.get_element_type().get_type_name()
    return values.view(ml_dtypes.bfloat16) if dtype == "bf16" else values


def _tensor(array: np.ndarray) -> object:
    """Return OpenVINO's tensor of an array."""
    import openvino as ov

    if array.dtype == ml_dtypes.bfloat16:  # OpenVINO does not know this dtype of ml_dtypes
        tensor = ov.Tensor(ov.Type.bf16, ov.Shape(array.shape))
        tensor.data[...] = array.view(np.float16)  # the dtype as which OpenVINO gives the bits
        return tensor
    return ov.Tensor(np.ascontiguousarray(array).reshape(array.shape))


def onnxruntime(model: bytes, inputs: Arrays) -> list[np.ndarray]:
    """Return the outputs of ONNX Runtime, with its optimizer."""
    return load.onnxruntime(model)(inputs)


RUNTIMES = {"onnxruntime": onnxruntime, "openvino": openvino, "onnx.reference": reference}
RUNTIMES |= {name: partial(load.once, name) for name in load.RUNTIMES}


ENDLESS = 120
"""Seconds after which a process ends itself, because its model has a loop that does not end."""


def run_or_end(runtime: str, model: bytes, inputs: Arrays) -> list[np.ndarray]:
    """Return the outputs of a model in a runtime. End the process after ``ENDLESS`` seconds.

    A signal ends it. A Python exception could not, because a runtime returns to Python only when
    the model has ended.
    """
    signal.alarm(ENDLESS)
    try:
        return RUNTIMES[runtime](model, inputs)
    finally:
        signal.alarm(0)


class Apart:
    """A separate process that runs models; if a model ends it, the next one gets a new process."""

    def __init__(self, runtime: str) -> None:
        self._run = partial(run_or_end, runtime)
        self._pool: ProcessPoolExecutor | None = None

    def __call__(self, model: bytes, inputs: Arrays) -> list[np.ndarray] | BaseException:
        """Return the outputs of a model, or the exception if it fails or ends the process."""
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
