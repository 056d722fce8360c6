"""Which step of a conversion changes a number."""

from dataclasses import replace

import jax

from converter.api.conversion import finish
from converter.api.request import BisectionRequest, accepts_arguments_of
from converter.pipeline import passes
from converter.verify.samples import check_inputs_allowed
from converter.verify.watch import Change, StepChangedError, Watch


@accepts_arguments_of(BisectionRequest)
def bisect(request: BisectionRequest) -> Change | None:
    """Convert step by step, and name the first step that changes a number by more than rounding.

    The graph is evaluated in JAX as it was traced and after each pass; at last the file is run in
    ONNX Runtime, at every level of its optimiser. An element that is open, because nothing says
    whether roundings explain it (``Verdict``), counts as changed.

    Args:
        fn: as in ``to_onnx``, and so is all that is not said here.
        inputs: arrays as the function takes them, or pytrees of them, one for each positional
            input, then those by name.
        specs: as in ``to_onnx``, for named dimensions; without them the shapes of the inputs.

    Returns:
        The first step after which a number is another, or none.
    """
    if request.specs is None:
        request = replace(request, specs=request.inputs)
    graph = request.trace()
    interface = request.interface(graph)
    arrays = interface.taken(jax.tree.leaves(list(request.inputs)))
    check_inputs_allowed(graph, arrays)
    watch = Watch(request.trace, [("given", arrays)], interface.called(request.call))
    try:
        watch.trace()
        passes.run_passes(graph, request, watch)
        watch.file(finish(graph, request, request.trace))
    except StepChangedError as found:
        return found.change
    return None
