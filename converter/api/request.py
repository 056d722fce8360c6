"""Requests: the arguments of ``to_onnx``, ``explain`` and ``bisect``, each declared once."""

import inspect
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import Any, ParamSpec, TypeVar

from converter.errors import SpecError
from converter.frontend.interface import ConvertedFunction
from converter.frontend.specs import Spec
from converter.model.results import MetadataArgument
from converter.pipeline.settings import PassSettings

P = ParamSpec("P")
Result = TypeVar("Result")


@dataclass(frozen=True)
class GraphRequest(PassSettings, ConvertedFunction):
    """Request for a converted graph.

    It has a function with the specs and names of its inputs and outputs, and the options of the
    passes. Its fields are the arguments of ``explain``.
    """


@dataclass(frozen=True)
class FileRequest(GraphRequest):
    """Request for a converted graph that is written to a file.

    It adds the path, verification and metadata of the file. Its fields are the arguments of
    ``to_onnx``, which describes them.

    Raises:
        SpecError: ``external_data`` is passed without ``path``.
    """

    path: str | os.PathLike[str] | None = field(default=None, kw_only=True)
    external_data: bool | None = field(default=None, kw_only=True)
    verify: bool | Sequence[Any] = field(default=False, kw_only=True)
    accept_open: Collection[str] = field(default=(), kw_only=True)
    metadata: MetadataArgument = field(default=None, kw_only=True)
    source_lines: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.external_data is not None and self.path is None:
            raise SpecError(
                "external_data needs a path: pass path, or pass external_data to Export.save"
            )


@dataclass(frozen=True)
class BisectionRequest(GraphRequest):
    """Request for the first step of a conversion that changes a number on the inputs.

    Its fields are the arguments of ``bisect``. ``specs`` is None if they are the shapes of the
    inputs.
    """

    specs: Sequence[Spec] | None = field(default=None, kw_only=True)
    inputs: Sequence[Any]


def accepts_arguments_of(
    request_type: Callable[P, Any],
) -> Callable[[Callable[[Any], Result]], Callable[P, Result]]:
    """Return a decorator for a function whose only argument is a request.

    The decorated function takes the arguments of the class ``request_type`` instead, builds the
    request from them and passes it on: ``to_onnx(fn, specs, opset=23)`` calls the function with
    ``FileRequest(fn, specs, opset=23)``. Its signature shows these arguments. Wrong arguments raise
    a `TypeError` that names the function.
    """

    def decorate(function: Callable[[Any], Result]) -> Callable[P, Result]:
        returns = inspect.signature(function).return_annotation
        signature = inspect.signature(request_type).replace(return_annotation=returns)

        def call(*args: P.args, **kwargs: P.kwargs) -> Result:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{function.__name__}: {error}") from None
            return function(request_type(*args, **kwargs))

        update_wrapper(call, function)
        del call.__wrapped__  # type: ignore[attr-defined]
        call.__signature__ = signature  # type: ignore[attr-defined]
        return call

    return decorate
