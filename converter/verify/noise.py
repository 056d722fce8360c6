"""Estimate the effect of rounding errors on a result.

A runtime may round differently from JAX at every step. The effect is different for each element: if
the terms of a sum cancel, its relative error is large, while the relative error of a product stays
small. The graph is therefore evaluated several times. In each evaluation, the result of every step
is changed at random by up to two units in the last place. An element may differ by the spread of
these evaluations (stochastic arithmetic; Vignes, 2004, doi:10.1023/B:NUMA.0000049483.75679.ce).
``converter.verify.perturber`` evaluates one node.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np

from converter.canonicalize import canonicalize
from converter.decompose.expansion import decompose
from converter.ir import Graph, Node, Value, ops
from converter.ir.dtypes import is_float
from converter.ir.evaluation import ENDLESS, all_nodes, evaluate_bounded, use_precision_of
from converter.ir.op import Rounding
from converter.ir.rewrite import Editor, drop_dead, sweep
from converter.jax_versions import enable_x64
from converter.pipeline.settings import PassSettings
from converter.pipeline.steps import expand_formula, fuse_resampling, name_calls
from converter.verify.perturber import MAX_UNITS, POOL_SIZE, Perturber
from converter.verify.samples import draw_inputs

ITERATION_FACTOR, EXTRA_ITERATIONS = 4, 256
"""Limit of loop iterations with perturbations: this multiple of the iterations without them, plus a
constant. A loop that waits for an exact number may never end with random errors."""

SIGMOID_MAGNITUDE = 1 / 8
"""Magnitude of a result whose rounding error is as large as the absolute error of a sigmoid."""


def has_resampling(graph: Graph) -> bool:
    """Return True if the graph has an operation that interpolates between pixels.

    These are ``grid_sample``, and ``resize`` in every mode but nearest. Their sampling positions
    have a rounding error.
    """
    return any(map(_computes_sampling_positions, graph.walk()))


def _computes_sampling_positions(node: Node) -> bool:
    """Return True for ``grid_sample``, and for a ``resize`` whose mode is not nearest."""
    linear = node.op is ops.resize and node.params["kinds"][0][0] != "nearest"
    return linear or node.op is ops.grid_sample


class UnperturbedResult(NamedTuple):
    """Results of one evaluation of a graph without perturbations.

    Arguments:
        outputs: the outputs of the graph.
        max_iterations: limit of the iterations of a loop in perturbed evaluations on the same
            inputs.
        resampled_outputs: the outputs if the sampling positions are computed by the formulas of
            ONNX's operators; None if the file has no sampling positions with a rounding error.
    """

    outputs: list[np.ndarray]
    max_iterations: int
    resampled_outputs: list[np.ndarray] | None


class PerturbedEvaluation:
    """Evaluations of a graph with random rounding errors in every step, on any inputs.

    Arguments:
        retrace: returns a new copy of the traced graph.
        retrace_calls: returns a new copy of the traced graph in which calls of the functions with
            these names stay nodes. None if the sampling positions of the file have no rounding
            error.
        absolute_functions: operations whose results have an absolute error in the file, with a
            magnitude for each (``Report.absolute_functions``).
    """

    def __init__(
        self,
        retrace: Callable[[], Graph],
        retrace_calls: Callable[[frozenset[str]], Graph] | None = None,
        absolute_functions: Mapping[str, float] | None = None,
    ) -> None:
        self._retrace = retrace
        self._absolute_functions = {
            ops.logistic.name: SIGMOID_MAGNITUDE,
            **(absolute_functions or {}),
        }
        self._retrace_calls = retrace_calls

    @cached_property
    def _graph(self) -> Graph:
        """The traced graph without dead nodes.

        Operations that round as a function of the caller (``Rounding.CALLER``), such as a reduction
        by a user's function, are replaced by the computation of that function.
        """
        graph = self._retrace()
        drop_dead(graph)
        decompose(graph, lambda op: op.rounding is Rounding.CALLER)
        return graph

    @cached_property
    def _divided_sums(self) -> frozenset[Node]:
        """The nodes that compute a sum which is then divided.

        Reshapes and broadcasts may come before the division. A runtime may divide the terms before
        it adds them, as the norms of ONNX Runtime do. The result of such a sum is therefore
        perturbed even if all of its terms have few digits.
        """
        divisions = (node for node in all_nodes(self._graph) if node.op is ops.div)
        dividends = [n.inputs[0].node for n in divisions]
        for node in dividends:
            if node is not None and node.op in (ops.broadcast_in_dim, ops.reshape):
                dividends.append(node.inputs[0].node)
        sums = (node for node in dividends if node is not None)
        return frozenset(node for node in sums if node.op.rounding is Rounding.SUMS)

    @cached_property
    def _rounded_values(self) -> frozenset[int]:
        """The ids of the values that may contain a rounding error: inputs of bodies, results of
        nodes that round, and results of nodes that read such a value."""
        graph_inputs = {id(v) for v in self._graph.inputs}
        rounded = set[int]()
        for node in all_nodes(self._graph):
            rounded |= {id(v) for v in node.inputs if v.kind == "input"} - graph_inputs
            if node.op.rounding is not Rounding.NONE or any(id(v) in rounded for v in node.inputs):
                rounded |= {id(v) for v in node.outputs}
        return frozenset(rounded)

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """Arrays of the parameters by name; parameters without values are drawn at random."""
        unbound = [v for v in self._graph.params if v.bound is None]
        drawn = zip([v.name for v in unbound], draw_inputs(unbound, {}), strict=True)
        return {v.name: v.bound for v in self._graph.params} | dict(drawn)

    @cached_property
    def _run(self) -> Callable[..., tuple[list[Any], Any]]:
        """The function that evaluates the graph.

        Its arguments are the inputs, the parameters, the pool of random numbers and the limit of
        iterations. It returns the outputs, and the largest number of iterations of any loop. It is
        compiled only if the graph has loops.
        """
        graph = self._graph

        def run(
            args: Sequence[Any], params: Mapping[str, Any], pool: Any, max_iterations: Any
        ) -> Any:
            perturber = Perturber(
                pool, self._divided_sums, self._rounded_values, self._absolute_functions
            )
            return evaluate_bounded(graph, args, params, perturber, max_iterations)

        # If the graph is evaluated node by node, an operation that occurs in several layers is
        # compiled only once. A loop would be compiled again every time.
        has_loops = any(node.bodies for node in graph.nodes)
        return jax.jit(run) if has_loops else run

    def _use_precision(self) -> AbstractContextManager[None]:
        """Return a context with 64-bit numbers if the graph needs them, and else with those of the
        caller.

        It needs them if a node has them, or for an operation that cancels, which is also evaluated
        in float64. JAX compiles a loop only after this evaluation has been traced, so that the
        context has to include both.
        """
        nodes = list(all_nodes(self._graph))
        if any(node.op.rounding is Rounding.CANCELS for node in nodes):
            return enable_x64(True)
        return use_precision_of(nodes)

    @cached_property
    def _resampling_noise(self) -> "PerturbedEvaluation | None":
        """Evaluations of the graph in which sampling positions are computed by the formulas of
        ONNX's operators.

        These positions have a rounding error even if JAX computes the positions or weights exactly.
        The result is None if the graph has no sampling positions, or if ``retrace_calls`` is None.
        """
        if self._retrace_calls is None:
            return None
        settings = PassSettings(target="standard")
        graph = self._retrace_calls(settings.kept_calls)
        name_calls(graph, settings)
        canonicalize(graph)
        fuse_resampling(graph, settings)
        if not has_resampling(graph):
            return None
        sweep(graph, dict.fromkeys((ops.grid_sample, ops.resize), _expand_with_rounded_positions))
        return PerturbedEvaluation(lambda: graph)

    def evaluate_exact(self, args: Sequence[Any]) -> UnperturbedResult:
        """Evaluate the graph for the inputs ``args`` without perturbations.

        The result contains the outputs, and the limit of iterations for perturbed evaluations on
        the same inputs. The limit is ``ITERATION_FACTOR`` times the iterations of the longest loop,
        plus ``EXTRA_ITERATIONS``.
        """
        outputs, iterations = self._evaluate(args, 0, ENDLESS)
        max_iterations = min(ITERATION_FACTOR * iterations + EXTRA_ITERATIONS, ENDLESS)
        sampled = (
            None
            if self._resampling_noise is None
            else self._resampling_noise._evaluate(args, 0, max_iterations)[0]
        )
        return UnperturbedResult(outputs, max_iterations, sampled)

    def evaluate_perturbed(
        self, args: Sequence[Any], seed: int, exact: UnperturbedResult
    ) -> list[np.ndarray] | None:
        """Return the outputs for the inputs ``args`` with random rounding errors.

        Arguments:
            args: the inputs of the graph.
            seed: seed of the rounding errors, above zero.
            exact: the results of ``evaluate_exact`` for the same inputs.

        Returns:
            The outputs. None if a loop reaches the limit of iterations, since the errors may keep
            it from ending.
        """
        outputs, iterations = self._evaluate(args, seed, exact.max_iterations)
        if iterations >= exact.max_iterations:
            return None
        if self._resampling_noise is None or exact.resampled_outputs is None:
            return outputs
        perturbed, _ = self._resampling_noise._evaluate(args, seed, exact.max_iterations)
        return [
            _add_displacement(*arrays)
            for arrays in zip(outputs, perturbed, exact.resampled_outputs, strict=True)
        ]

    def _evaluate(
        self, args: Sequence[Any], seed: int, max_iterations: int
    ) -> tuple[list[np.ndarray], int]:
        """Return the outputs for the inputs ``args``, and the largest number of iterations of any
        loop.

        Nothing is perturbed if ``seed`` is zero. Every loop stops after ``max_iterations``.
        """
        units = MAX_UNITS if seed else 0
        pool = np.random.default_rng(seed).uniform(-units, units, POOL_SIZE).astype(np.float32)
        with self._use_precision(), np.errstate(all="ignore"):
            outputs, iterations = self._run(list(args), self.params, pool, np.int32(max_iterations))
            return [np.asarray(y) for y in outputs], int(iterations)


def _expand_with_rounded_positions(node: Node, editor: Editor) -> Sequence[Value]:
    """Return the results of a resize or a sampled grid, computed by the formula of the operation.

    If x64 is enabled, JAX computes the positions of a resize in float64. ONNX Runtime computes them
    in float32, so that x64 is disabled for a node that interpolates operands of less than 64 bits.
    """
    is_wide = any(v.dtype.itemsize == 8 for v in node.inputs)
    if is_wide or not _computes_sampling_positions(node):
        return expand_formula(node, editor)
    with enable_x64(False):
        return expand_formula(node, editor)


def _add_displacement(
    value: np.ndarray, perturbed: np.ndarray, unperturbed: np.ndarray
) -> np.ndarray:
    """Return ``value + (perturbed - unperturbed)``.

    Elements whose difference is not finite are not changed, nor are integers.
    """
    if not is_float(value.dtype):
        return value
    with np.errstate(invalid="ignore", over="ignore"):
        displacement = perturbed - unperturbed
        return np.where(np.isfinite(displacement), value + displacement, value)
