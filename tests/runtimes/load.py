"""Load a file in a runtime, as a function that can be called repeatedly.

Runtimes use two threads if their number can be set. tract has one thread in its Python package, and
reads files by path. IREE's importer is a separate program. Each package is imported where it is
needed, because none of them has to be installed.
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
    is_older(version("onnxruntime"), "1.24"), reason="ONNX Runtime reports placements since 1.24"
)
"""Mark of tests that need to know on which device nodes run."""

needs_quantized_23 = pytest.mark.skipif(
    is_older(version("onnxruntime"), "1.24"), reason="QuantizeLinear of opset 23 came with 1.24"
)

Run: TypeAlias = Callable[[Sequence[np.ndarray]], list[np.ndarray]]
"""Function from inputs to outputs, in the order of the file."""

THREADS = 2


def onnxruntime(file: Path | bytes) -> Run:
    """Load a file in ONNX Runtime with its default graph optimizations."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = THREADS
    session = ort.InferenceSession(file, options, enable_fallback=0)
    names = [value.name for value in session.get_inputs()]
    return lambda arrays: session.run(None, dict(zip(names, arrays, strict=True)))


def tract(file: Path) -> Run:
    """Load a file in tract, which unifies symbolic dimensions with the sizes of the inputs."""
    import tract

    model = tract.onnx().load(file).into_model().into_runnable()
    return lambda arrays: [output.to_numpy() for output in model.run(list(arrays))]


def opencv(file: Path) -> Run:
    """Load a file in OpenCV's new engine. The classic engine has no symbolic dimensions."""
    import cv2

    cv2.setNumThreads(THREADS)
    graph = onnx.load(file, load_external_data=False).graph
    net = cv2.dnn.readNetFromONNX(str(file), cv2.dnn.ENGINE_NEW)
    names = [value.name for value in graph.output]

    def run(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        for value, array in zip(graph.input, arrays, strict=True):
            net.setInput(array, value.name)
        return [output.copy() for output in net.forward(names)]

    return run


def iree(file: Path) -> Run:
    """Compile a file with IREE for the CPU of this machine.

    Data tiling is disabled for symbolic dimensions, which it does not support. **Raises**
    `RuntimeError` if the file cannot be compiled, because the compiler's error cannot be pickled.
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
        outputs = function(*arrays)
        return [
            output.to_host() for output in (outputs if isinstance(outputs, tuple) else (outputs,))
        ]

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
"""PyPI packages of the runtimes. All are optional for tests."""


def need(runtime: str) -> None:
    """Skip the test if the package of the runtime is not installed."""
    try:
        version(PACKAGES[runtime])
    except PackageNotFoundError:
        pytest.skip(f"{PACKAGES[runtime]} is not installed: pip install -e '.[test]' brings it")


def once(runtime: str, model: bytes, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Load a model, run it once, and return its outputs."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        file.write_bytes(model)
        return RUNTIMES[runtime](file)(inputs)
