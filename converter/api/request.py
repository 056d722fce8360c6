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
    """Request for a converted graph: a function, the names of its values, and options of the
    passes."""


@dataclass(frozen=True)
class FileRequest(GraphRequest):
    """Request for a file: its path, its verification and its metadata."""

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
    """Request for the first step that changes a number on the given inputs."""

    specs: Sequence[Spec] | None = field(default=None, kw_only=True)
    inputs: Sequence[Any]


def accepts_arguments_of(
    request: Callable[P, Any],
) -> Callable[[Callable[[Any], Result]], Callable[P, Result]]:
    """Return a decorator that lets a function of a request be called with the arguments of the
    request."""

    def decorate(answer: Callable[[Any], Result]) -> Callable[P, Result]:
        returns = inspect.signature(answer).return_annotation
        signature = inspect.signature(request).replace(return_annotation=returns)

        def call(*args: P.args, **kwargs: P.kwargs) -> Result:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{answer.__name__}: {error}") from None
            return answer(request(*args, **kwargs))

        update_wrapper(call, answer)
        del call.__wrapped__  # type: ignore[attr-defined]
        call.__signature__ = signature  # type: ignore[attr-defined]
        return call

    return decorate
