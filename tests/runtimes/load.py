"""Loading a file in a runtime: once, to be run often, on two threads where one can say so.

tract has one thread in its Python package, and takes files by their path. IREE's importer is a
program of its own. Each package is imported where it is needed: none has to be there.
"""

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import numpy as np
import onnx
import pytest

from converter.opsets import is_older

needs_placement = pytest.mark.skipif(
    is_older(version("onnxruntime"), "1.24"), reason="ONNX Runtime says so from 1.24 on"
)
"""Of tests that ask where nodes are run."""

needs_quantized_23 = pytest.mark.skipif(
    is_older(version("onnxruntime"), "1.24"), reason="QuantizeLinear of opset 23 came with 1.24"
)

Run: TypeAlias = Callable[[Sequence[np.ndarray]], list[np.ndarray]]
"""Inputs to outputs, in the order of the file."""

THREADS = 2


def onnxruntime(file: Path | bytes) -> Run:
    """ONNX Runtime, with its optimiser."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = THREADS
    session = ort.InferenceSession(file, options, enable_fallback=0)
    names = [each.name for each in session.get_inputs()]
    return lambda arrays: session.run(None, dict(zip(names, arrays, strict=True)))


def tract(file: Path) -> Run:
    """tract, which unifies the sizes of a file with those that it is given."""
    import tract

    model = tract.onnx().load(file).into_model().into_runnable()
    return lambda arrays: [each.to_numpy() for each in model.run(list(arrays))]


def opencv(file: Path) -> Run:
    """OpenCV's new engine: its classic one takes no open sizes."""
    import cv2

    cv2.setNumThreads(THREADS)
    graph = onnx.load(file, load_external_data=False).graph
    net = cv2.dnn.readNetFromONNX(str(file), cv2.dnn.ENGINE_NEW)
    names = [each.name for each in graph.output]

    def run(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        for value, array in zip(graph.input, arrays, strict=True):
            net.setInput(array, value.name)
        return [each.copy() for each in net.forward(names)]

    return run


def iree(file: Path) -> Run:
    """IREE, compiled for the CPU that this runs on; data tiling does not take open sizes.

    **Raises** `RuntimeError` if it cannot be compiled; the compiler's own error cannot be pickled.
    """
    import iree.compiler
    from iree import runtime

    graph = onnx.load(file, load_external_data=False).graph
    sizes = [dim for value in graph.input for dim in value.type.tensor_type.shape.dim]
    tiling = [] if any(dim.dim_param for dim in sizes) else ["--iree-opt-data-tiling"]
    flags = ["--iree-llvmcpu-target-cpu=host", *tiling]
    with TemporaryDirectory() as folder:
        imported = Path(folder) / "model.mlir"
        importer = [sys.executable, "-m", "iree.compiler.tools.import_onnx", file, "-o", imported]
        subprocess.run(importer, check=True, capture_output=True)
        try:
            compiled = iree.compiler.compile_file(
                str(imported), target_backends=["llvm-cpu"], input_type="onnx", extra_args=flags
            )
        except iree.compiler.tools.CompilerToolError as error:
            raise RuntimeError(str(error)) from None
    context = runtime.SystemContext(config=runtime.Config("local-task"))
    context.add_vm_module(runtime.VmModule.copy_buffer(context.instance, compiled))
    function = context.modules.module[graph.name]

    def run(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        found = function(*arrays)
        return [each.to_host() for each in (found if isinstance(found, tuple) else (found,))]

    return run


RUNTIMES: Mapping[str, Callable[[Path], Run]] = {"tract": tract, "opencv": opencv, "iree": iree}

PACKAGES = {
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
    "onnx.reference": "onnx",
    "tract": "tract",
    "opencv": "opencv-python-headless",
    "iree": "iree-base-compiler",
}
"""What is installed for each, but not by everybody who tests."""


def need(runtime: str) -> None:
    """Skip a test without it."""
    try:
        version(PACKAGES[runtime])
    except PackageNotFoundError:
        pytest.skip(f"{PACKAGES[runtime]} is not installed: pip install -e '.[test]' brings it")


def once(runtime: str, model: bytes, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a file that is loaded for one run."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        file.write_bytes(model)
        return RUNTIMES[runtime](file)(inputs)
