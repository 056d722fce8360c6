"""Which step of a conversion changes a number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax

from converter import passes
from converter.export import finish
from converter.jaxprs.specs import Spec, arguments, flat
from converter.judge.samples import refuse_forbidden
from converter.judge.watch import Change, Changed, Watch
from converter.settings import AttentionLayout, Settings
from converter.trace import trace


def bisect(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    specs: Sequence[Spec] | None = None,
    params: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    constraints: Sequence[str] = (),
    opset: int = 23,
    attention_layout: AttentionLayout = "4d",
    strict: bool = False,
    fold: bool = True,
) -> Change | None:
    """Convert step by step, and name the first step that changes a number by more than rounding.

    The graph is evaluated in JAX as it was traced and after each pass; at last the file is run in
    ONNX Runtime, without and with its optimiser.

    Args:
        fn, params, kwargs, constraints, opset, attention_layout, strict, fold: as in ``to_onnx``.
        inputs: arrays, or pytrees of them, one for each positional input, then those by name.
        specs: as in ``to_onnx``, for named dimensions; without them the shapes of the inputs.

    Returns:
        The first step after which a number is another, or none.
    """
    specs = inputs if specs is None else specs
    retrace = partial(trace, fn, specs, params, kwargs, constraints)
    graph = retrace()
    settings = Settings(opset, attention_layout, strict, fold)
    given = jax.tree.leaves(list(inputs))
    refuse_forbidden(graph, given)
    watch = Watch(retrace, [("given", given)])
    call = fn if params is None else partial(fn, params)
    try:
        watch.function(flat(call, arguments(specs, kwargs).fill))
        passes.run(graph, settings, watch)
        watch.file(finish(graph, settings, retrace))
    except Changed as found:
        return found.change
    return None
