"""What is asked of a conversion: each keyword of ``to_onnx`` is stated once, and shared."""

import inspect
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import Any, ParamSpec, TypeVar

from converter.errors import SpecError
from converter.frontend.interface import ConvertedFunction
from converter.frontend.specs import Spec
from converter.model.results import Given
from converter.pipeline.settings import PassSettings

P = ParamSpec("P")
Result = TypeVar("Result")


@dataclass(frozen=True)
class GraphRequest(PassSettings, ConvertedFunction):
    """Request of a conversion: a function, the names of its values, and what changes the graph."""


@dataclass(frozen=True)
class FileRequest(GraphRequest):
    """A request of a file: where it goes, and what it says besides."""

    path: str | os.PathLike[str] | None = field(default=None, kw_only=True)
    external_data: bool | None = field(default=None, kw_only=True)
    verify: bool | Sequence[Any] = field(default=False, kw_only=True)
    accept_open: Collection[str] = field(default=(), kw_only=True)
    metadata: Given = field(default=None, kw_only=True)
    source_lines: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.external_data is not None and self.path is None:
            raise SpecError("external_data says how path is written: give one, or use Export.save")


@dataclass(frozen=True)
class BisectionRequest(GraphRequest):
    """A request of the step that changes a number on these inputs."""

    specs: Sequence[Spec] | None = field(default=None, kw_only=True)
    inputs: Sequence[Any]


def accepts_arguments_of(
    request: Callable[P, Any],
) -> Callable[[Callable[[Any], Result]], Callable[P, Result]]:
    """Let a function of a request be called with what the request is made of."""

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
