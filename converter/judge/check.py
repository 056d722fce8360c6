"""Is a file right? ONNX Runtime against JAX, by element, with and without its optimiser."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from converter.errors import CheckError
from converter.jaxprs.keys import numbers
from converter.jaxprs.specs import flat
from converter.judge.elements import Judge
from converter.judge.errors import Errors, compare
from converter.judge.noise import Noise
from converter.judge.runtime import Model, run, session
from converter.judge.samples import samples
from converter.result import Export

if TYPE_CHECKING:
    import onnxruntime as ort


@dataclass(frozen=True)
class Difference:
    """An element that differs by more than rounding explains."""

    sample: str
    optimised: bool
    output: str
    index: tuple[int, ...]
    got: str
    wanted: str

    def __str__(self) -> str:
        how = "" if self.optimised else " without ONNX Runtime's optimiser"
        return (
            f"{self.output}{list(self.index)} is {self.got} in ONNX Runtime and {self.wanted} in "
            f"JAX, on {self.sample} inputs{how}"
        )


class Verdict(dict[str, Errors]):
    """The largest errors by output; and what differs by more than rounding explains."""

    def __init__(self) -> None:
        super().__init__()
        self.differences: list[Difference] = []

    @property
    def passed(self) -> bool:
        """Whether the file computes what the function does."""
        return not self.differences


def check(
    model: Model, fn: Callable[..., Any], inputs: Sequence[Any] | None = None, *, seed: int = 0
) -> Verdict:
    """Compare what a model computes in ONNX Runtime with what ``fn`` does in JAX.

    Integers and booleans have to be equal. A float may be off by what rounding at every step of the
    graph can do to that very element (``converter.judge.noise``), where ``model`` is an export with
    its parameters; in other models by what rounding does to the largest element of its array.

    Args:
        model: an export, an onnx_ir model, a path, or a session, which is run as it is; everything
            else is run with and without ONNX Runtime's optimiser.
        fn: called with the inputs; its leaves are compared with the outputs in order.
        inputs: arrays, one for each input, or pytrees of them; without them several are drawn
            (ordinary, repeated, zero and large numbers, at the extremes of named dimensions),
            which takes an export.

    Returns:
        A dictionary from outputs to errors, with ``passed`` and ``differences``.

    Raises:
        CheckError: inputs or outputs do not fit the model.
    """
    graph = model.graph if isinstance(model, Export) else None
    if inputs is None and graph is None:
        raise CheckError("only an export says what its inputs are: pass inputs")
    given = jax.tree.leaves(list(inputs or ()))
    if graph is not None and inputs is not None and len(given) != len(graph.inputs):
        raise CheckError(f"the model takes {len(graph.inputs)} inputs, received {len(given)}")
    drawn = samples(graph, seed) if inputs is None and graph else [("given", given)]
    noise = _noise(model) if isinstance(model, Export) else None
    call = flat(fn, model.fill) if isinstance(model, Export) else fn
    cases = [_Case(name, given, call, noise) for name, given in drawn]
    verdict = Verdict()
    for optimised, live in _sessions(model):
        for case in cases:
            case.compare(run(live, case.inputs), optimised, verdict)
    return verdict


class _Case:
    """A sample, and what the function makes of it."""

    def __init__(
        self, name: str, given: Sequence[Any], fn: Callable[..., Any], noise: Noise | None
    ) -> None:
        self.name = name
        self.inputs = [np.asarray(numbers(x)) for x in given]
        results = fn(*jax.device_put(list(given)))  # `jnp.asarray` would be compiled
        self._wanted = [np.asarray(numbers(x)) for x in jax.tree_util.tree_leaves(results)]
        self._judge = Judge(noise, self.inputs)

    def compare(self, got: dict[str, np.ndarray], optimised: bool, verdict: Verdict) -> None:
        """Note the errors of one run."""
        if len(got) != len(self._wanted):
            raise CheckError(
                f"the model has {len(got)} outputs, the function gave {len(self._wanted)}"
            )
        for i, (output, result) in enumerate(got.items()):
            wanted = self._wanted[i]
            verdict[output] = _worse(verdict.get(output), compare(result, wanted))
            for index in np.argwhere(self._judge.wrong(i, result, wanted))[:1]:
                place = tuple(int(n) for n in index)
                pair = (str(result[place]), str(wanted[place]))
                verdict.differences.append(Difference(self.name, optimised, output, place, *pair))


def _sessions(model: Model) -> Iterator[tuple[bool, ort.InferenceSession]]:
    """One after the other, so that only one has the weights in memory."""
    import onnxruntime as ort

    if isinstance(model, ort.InferenceSession):
        yield True, model
        return
    for optimise in (True, False):
        yield optimise, session(model, optimise=optimise)


def _noise(export: Export) -> Noise | None:
    """None where there are no values for the graph's parameters."""
    if any(v.bound is None and v.program is None for v in export.graph.params):
        return None
    return Noise(export.retrace)


def _worse(first: Errors | None, second: Errors) -> Errors:
    if first is None:
        return second
    return Errors(
        max(first.max_abs, second.max_abs),
        max(first.max_rel, second.max_rel),
        float(np.minimum(first.cosine, second.cosine)),
    )
