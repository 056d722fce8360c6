"""Is a file right? ONNX Runtime against JAX, by element, with and without its optimiser."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from converter.errors import CheckError, ConverterError
from converter.frontend.array_forms import is_key, key_numbers
from converter.frontend.diagnostics import RAISED
from converter.frontend.interface import Interface
from converter.frontend.trace import trace
from converter.ir.complex_pairs import packed
from converter.model.results import Export
from converter.model.verdict import Difference, Verdict, compare, worse
from converter.verify.elements import Judge
from converter.verify.noise import Noise
from converter.verify.samples import refuse_forbidden, samples
from converter.verify.sessions import Model, run, sessions


def check(
    model: Model, fn: Callable[..., Any], inputs: Sequence[Any] | None = None, *, seed: int = 0
) -> Verdict:
    """Compare what a model computes in ONNX Runtime with what ``fn`` does in JAX.

    Integers and booleans have to be equal. A float may be off by what rounding at every step of
    what JAX computes can do to that very element (``converter.verify.noise``); where ``fn`` is no
    function that JAX can trace, by what rounding does to the largest element of its array.
    Complex numbers are compared as the model has them, both parts on a last axis of two.

    Args:
        model: an export, an onnx_ir model, a path, or a session, which is run as it is; everything
            else is run with and without ONNX Runtime's optimiser.
        fn: called with the inputs; its leaves are compared with the outputs in order.
        inputs: arrays as the function takes them, or pytrees of them; without them several are
            drawn (ordinary, repeated, zero and large numbers, at the extremes of named
            dimensions for which evaluations take at most 4 GiB), which takes an export.

    Returns:
        A dictionary from outputs to errors, with ``passed`` and ``differences``.

    Raises:
        CheckError: inputs or outputs do not fit the model, or JAX cannot evaluate the function.
    """
    interface = model.interface if isinstance(model, Export) else Interface()
    if inputs is not None:
        drawn = [("given", interface.taken(jax.tree.leaves(list(inputs))))]
        if isinstance(model, Export):
            refuse_forbidden(model.graph, drawn[0][1])
    elif isinstance(model, Export):
        drawn = [*samples(model.graph, seed, model.retrace())]
    else:
        raise CheckError("only an export says what its inputs are: pass inputs")
    call = interface.called(fn)
    noise, verdict = _noise(model, call, drawn[0][1]), Verdict()
    cases: list[tuple[Judge, list[np.ndarray]]] = []
    for name, arrays in drawn:
        with _evaluating(name, arrays):
            results = call(*jax.device_put(list(arrays)))  # `jnp.asarray` would be compiled
            wanted = [_numbers(x) for x in jax.tree.leaves(results)]
            cases.append((Judge(noise, arrays, name), wanted))
    for optimised, live in sessions(model):
        for judge, wanted in cases:
            got = run(live, judge.inputs)
            with _evaluating(judge.name, judge.inputs):
                _note_errors(judge, got, wanted, optimised, verdict)
    return verdict


@contextmanager
def _evaluating(name: str, inputs: Sequence[Any]) -> Iterator[None]:
    """What XLA and numpy raise, memory that is not there for one, in a sentence."""
    try:
        yield
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        shapes = ", ".join(str(list(np.shape(x))) for x in inputs)
        why = str(error).partition("\n")[0]
        raise CheckError(f"JAX cannot evaluate it on {name} inputs of {shapes}: {why}") from error


def _note_errors(
    judge: Judge, got: dict[str, np.ndarray], right: list[np.ndarray], optimised: bool, to: Verdict
) -> None:
    """What is wrong in one run on the inputs of a judge."""
    if len(got) != len(right):
        raise CheckError(f"the model has {len(got)} outputs, the function gave {len(right)}")
    for i, (output, result) in enumerate(got.items()):
        wanted = _canonical(right[i], result.dtype)
        to[output] = worse(to.get(output), compare(result, wanted))
        for place in judge.first_wrong(i, result, wanted):
            pair = (str(result[place]), str(packed(wanted)[place]))
            to.differences.append(Difference(judge.name, optimised, output, place, *pair))


def _numbers(leaf: Any) -> np.ndarray:
    """Of an array, or of the number that JAX would make an array of."""
    is_number = isinstance(leaf, bool | int | float | complex)
    return np.asarray(jax.device_put(leaf) if is_number else key_numbers(leaf))


def _canonical(wanted: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """What numpy has in 64 bits as JAX returns it, in 32 unless it is told otherwise."""
    is_it = wanted.dtype != dtype and jax.dtypes.canonicalize_dtype(wanted.dtype) == dtype
    return wanted.astype(dtype) if is_it else wanted


def _noise(model: Model, fn: Callable[..., Any], inputs: Sequence[Any]) -> Noise | None:
    """By what an export was traced from; of other models, by what the function itself is."""
    if isinstance(model, Export):
        is_whole = all(v.bound is not None or v.program for v in model.graph.params)
        return Noise(model.retrace) if is_whole else None
    try:
        graph = trace(fn, [x if is_key(x) else np.asarray(x) for x in inputs])
    except (*RAISED, ConverterError):  # no function of JAX's
        return None
    return Noise(lambda: graph) if any(id(v) in graph.uses() for v in graph.inputs) else None
