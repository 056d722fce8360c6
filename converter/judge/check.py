"""Is a file right? ONNX Runtime against JAX, by element, with and without its optimiser."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from converter.errors import CheckError
from converter.graph import Graph
from converter.judge.errors import Errors, compare
from converter.judge.noise import Noise, noise
from converter.judge.runtime import run, session
from converter.judge.samples import samples

if TYPE_CHECKING:
    import onnxruntime as ort

ROUNDING = 16
"""Units in the last place that a result may be off whatever the graph: kernels of ONNX Runtime
for `exp`, `tanh` and `erf` are polynomials that were measured up to 8 off."""

SCATTER = 8
"""How many times the scatter of perturbed evaluations an element may be off."""


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
    model: Any, fn: Callable[..., Any], inputs: Sequence[Any] | None = None, *, seed: int = 0
) -> Verdict:
    """Compare what a model computes in ONNX Runtime with what ``fn`` does in JAX.

    Integers and booleans have to be equal. A float may be off by what rounding at every step of the
    graph can do to that very element (``converter.judge.noise``), where ``model`` is an export;
    of other models by what a few units in the last place of the largest element are.

    Args:
        model: an export, an onnx_ir model, a path, or a session, which is run as it is; everything
            else is run with and without ONNX Runtime's optimiser.
        fn: called with the inputs; its leaves are compared with the outputs in order.
        inputs: arrays; without them several are drawn (ordinary, repeated, zero and large numbers,
            at several sizes of named dimensions), which takes an export.

    Returns:
        A dictionary from outputs to errors, with ``passed`` and ``differences``.

    Raises:
        CheckError: inputs or outputs do not fit the model.
    """
    graph: Graph | None = getattr(model, "graph", None)
    graph = graph if isinstance(graph, Graph) else None
    if inputs is None and graph is None:
        raise CheckError("only an export says what its inputs are: pass inputs")
    cases = samples(graph, seed) if inputs is None and graph else [("given", inputs or ())]
    lives = _sessions(model)
    verdict = Verdict()
    for name, given in cases:
        arrays = [np.asarray(x) for x in given]
        wanted = [np.asarray(x) for x in jax.tree_util.tree_leaves(fn(*given))]
        judge = _Judge(graph, arrays)
        for optimised, live in lives:
            got = run(live, arrays)
            if len(got) != len(wanted):
                raise CheckError(
                    f"the model has {len(got)} outputs, the function gave {len(wanted)}"
                )
            for i, (output, result) in enumerate(got.items()):
                verdict[output] = _worse(verdict.get(output), compare(result, wanted[i]))
                for index in judge.wrong(i, result, wanted[i])[:1]:
                    pair = (str(result[index]), str(wanted[i][index]))
                    verdict.differences.append(Difference(name, optimised, output, index, *pair))
    return verdict


def _sessions(model: Any) -> list[tuple[bool, ort.InferenceSession]]:
    import onnxruntime as ort

    if isinstance(model, ort.InferenceSession):
        return [(True, model)]
    return [(optimise, session(model, optimise=optimise)) for optimise in (True, False)]


def _worse(first: Errors | None, second: Errors) -> Errors:
    if first is None:
        return second
    return Errors(
        max(first.max_abs, second.max_abs),
        max(first.max_rel, second.max_rel),
        float(np.minimum(first.cosine, second.cosine)),
    )


class _Judge:
    """Which elements are wrong; the graph is evaluated only if some are further off than usual."""

    def __init__(self, graph: Graph | None, inputs: Sequence[np.ndarray]) -> None:
        self._graph = graph
        self._inputs = inputs
        self._noise: list[Noise] | None = None

    def wrong(self, output: int, got: np.ndarray, wanted: np.ndarray) -> list[tuple[int, ...]]:
        """Indices of the elements that are wrong."""
        bad = _apart(got, wanted, _rounding(wanted, whole=self._graph is None))
        if bad.any() and self._graph is not None and (found := self._noises()):
            noise = found[output]
            limit = SCATTER * noise.spread + _rounding(wanted, whole=False)
            bad = _apart(got, wanted, limit) & noise.stable
        return [tuple(int(i) for i in index) for index in np.argwhere(bad)]

    def _noises(self) -> list[Noise]:
        assert self._graph is not None
        if self._noise is None:
            values: Mapping[str, Any] = {
                v.name: v.bound for v in self._graph.params if v.program is None
            }
            unbound = any(v.bound is None and v.program is None for v in self._graph.params)
            self._noise = [] if unbound else noise(self._graph, self._inputs, values)
        return self._noise


def _rounding(wanted: np.ndarray, *, whole: bool) -> np.ndarray:
    """A few units in the last place of each element, or of the largest."""
    if wanted.dtype.kind in "biu":
        return np.zeros(wanted.shape)
    size = np.abs(wanted).astype(np.float64)
    size = np.where(np.isfinite(size), size, 0.0)
    if whole and size.size:
        size = np.full(size.shape, size.max())
    info = jnp.finfo(wanted.dtype)
    return ROUNDING * (float(info.eps) * size + float(info.smallest_normal))


def _apart(got: np.ndarray, wanted: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Where two arrays differ by more than a limit; NaN and infinities have to be the same."""
    if wanted.dtype.kind in "biu":
        return np.asarray(got != wanted)
    a, b = (x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) for x in (got, wanted))
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= limit
    return ~(near | (a == b) | (np.isnan(a) & np.isnan(b)))
