"""Which step of a conversion changes a number."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax

from converter.api.conversion import finish
from converter.frontend.interface import Subject
from converter.frontend.specs import Spec
from converter.pipeline import passes
from converter.pipeline.settings import Fuse, Settings
from converter.targets import DEFAULT, AttentionLayout, find_target
from converter.verify.samples import refuse_forbidden
from converter.verify.watch import Change, Changed, Watch


def bisect(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    specs: Sequence[Spec] | None = None,
    params: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    constraints: Sequence[str] = (),
    opset: int | None = None,
    attention_layout: AttentionLayout | None = None,
    strict: bool = False,
    fold: bool = True,
    fuse: Fuse = True,
    target: str = DEFAULT,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    channels_first: Collection[str] = (),
) -> Change | None:
    """Convert step by step, and name the first step that changes a number by more than rounding.

    The graph is evaluated in JAX as it was traced and after each pass; at last the file is run in
    ONNX Runtime, without and with its optimiser.

    Args:
        fn: as in ``to_onnx``, and so is all that is not said here.
        inputs: arrays as the function takes them, or pytrees of them, one for each positional
            input, then those by name.
        specs: as in ``to_onnx``, for named dimensions; without them the shapes of the inputs.

    Returns:
        The first step after which a number is another, or none.
    """
    specs = inputs if specs is None else specs
    subject = Subject(
        fn, specs, params, kwargs, constraints, input_names, output_names, channels_first
    )
    graph = subject.trace()
    interface = subject.interface(graph)
    settings = Settings(find_target(target).at(opset), attention_layout, strict, fold, fuse, target)
    given = interface.taken(jax.tree.leaves(list(inputs)))
    refuse_forbidden(graph, given)
    watch = Watch(subject.trace, [("given", given)])
    try:
        watch.function(interface.called(subject.call))
        passes.run_passes(graph, settings, watch)
        watch.file(finish(graph, settings, subject.trace))
    except Changed as found:
        return found.change
    return None
