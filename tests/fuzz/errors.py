"""What may be raised on the way of a program.

The fuzzer asks of code that it does not know to be right, and each of these may be the answer. Any
other ends the worker, which is reported as a crash.
"""

from onnxruntime.capi import onnxruntime_pybind11_state as runtime

from converter.jax_versions import InconclusiveDimensionOperation

PYTHON = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, NameError),
    *(OSError, RuntimeError, SystemError, TypeError, ValueError, RuntimeWarning),
)
"""Those that a mistake in Python code ends with; JAX's, onnx_ir's and our own are among them. A
warning of numpy's is one where warnings are errors, as in the tests."""

IN_JAX = (*PYTHON, InconclusiveDimensionOperation)
"""In which words JAX says that a line does not fit its operands, or that it cannot run it."""

IN_ONNX_RUNTIME = (
    *(runtime.EPFail, runtime.Fail, runtime.InvalidArgument, runtime.InvalidGraph),
    *(runtime.InvalidProtobuf, runtime.NotImplemented, runtime.RuntimeException),
)

ANY = (*IN_JAX, *IN_ONNX_RUNTIME)
