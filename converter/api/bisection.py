"""Find the step of a conversion that changes a result."""

from dataclasses import replace

import jax

from converter.api.conversion import build_export
from converter.api.request import BisectionRequest, accepts_arguments_of
from converter.pipeline import passes
from converter.verify.samples import check_inputs_allowed
from converter.verify.watch import Change, PassChecker, StepChangedError


@accepts_arguments_of(BisectionRequest)
def bisect(request: BisectionRequest) -> Change | None:
    """Convert step by step, and return the first step that changes a number by more than its
    rounding error.

    The graph is evaluated in JAX after tracing and after each pass. At the end the file is run in
    ONNX Runtime, at every optimization level. An open element (``Verdict``) is treated as changed.

    Arguments:
        fn: as in ``to_onnx``, like all arguments that are not listed here.
        inputs: the arrays or pytrees of arrays with which the function is called: first one for
            each positional input, then the inputs that are passed by name.
        specs: as in ``to_onnx``, for named dimensions. By default they are the shapes of the
            inputs.

    Returns:
        The step and the element that changed (``Change``), or None if no step changes a number.

    Raises:
        SpecError: an argument cannot be used.
        UnsupportedError: the function cannot be converted.
        CheckError: the number of inputs is wrong, or their sizes violate a constraint.
    """
    if request.specs is None:
        request = replace(request, specs=request.inputs)
    graph = request.trace(request.kept_calls)
    interface = request.interface(graph)
    arrays = interface.to_file_arrays(jax.tree.leaves(list(request.inputs)))
    check_inputs_allowed(graph, arrays)
    watch = PassChecker(request.trace, [("given", arrays)], interface.wrap(request.call))
    try:
        watch.check_trace()
        passes.run_passes(graph, request, watch)
        watch.check_file(build_export(graph, request, request.trace))
    except StepChangedError as found:
        return found.change
    return None
