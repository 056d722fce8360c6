"""Errors that may be raised while a program is converted, run or judged.

The fuzzer runs code that may be wrong, so it takes each of these errors as an outcome. Any other
error ends the worker, which is reported as a crash.
"""

from onnxruntime.capi import onnxruntime_pybind11_state as runtime

from converter.jax_versions import InconclusiveDimensionOperation

PYTHON = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, NameError),
    *(OSError, RuntimeError, SystemError, TypeError, ValueError, RuntimeWarning),
)
"""Errors that a fault in Python code may raise. Errors of JAX, onnx_ir and this project are among
their subclasses. numpy's RuntimeWarning is an error here, because warnings are errors in tests."""

IN_JAX = (*PYTHON, InconclusiveDimensionOperation)
"""Errors with which JAX says that a step does not fit its operands, or that it cannot run it."""

IN_ONNX_RUNTIME = (
    *(runtime.EPFail, runtime.Fail, runtime.InvalidArgument, runtime.InvalidGraph),
    *(runtime.InvalidProtobuf, runtime.NotImplemented, runtime.RuntimeException),
)

ANY = (*IN_JAX, *IN_ONNX_RUNTIME)
