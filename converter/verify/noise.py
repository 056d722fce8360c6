"""How far rounding alone can move a result: the graph evaluated with every step a little off.

A runtime may round differently from JAX at every step, and what that does to an element depends on
the element: a sum that cancels moves much, a large product next to it hardly. So the graph is
evaluated several times, each step moved at random by up to two units in the last place, and an
element may be as wrong as these evaluations scatter (stochastic arithmetic; Vignes, 2004,
doi:10.1023/B:NUMA.0000049483.75679.ce). Subnormal results, which XLA takes for zero and other
runtimes do not, are zero in some of the evaluations. What is moved is the result of a step; where a
step has many roundings inside, its operands too, which is how far they can carry (backward error),
and sums are added up in some order.
Steps that only choose numbers are left exact, and so is arithmetic on numbers of few digits.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, reduce
from itertools import count
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.canonicalize import canonicalize
from converter.decompose.expansion import decompose
from converter.frontend.array_forms import OfHeld
from converter.ir import Graph, Node, ops
from converter.ir.dtypes import is_float
from converter.ir.evaluation import (
    ENDLESS,
    Sizes,
    all_nodes,
    evaluate_bounded,
    precision,
    run_node,
    run_uncompiled,
)
from converter.ir.op import Linear, Rounding, Vectors
from converter.ir.rewrite import drop_dead, sweep
from converter.jax_versions import enable_x64
from converter.pipeline.settings import PassSettings
from converter.pipeline.steps import resample, spelled_out
from converter.verify.samples import draw_inputs

UNITS = 2
"""By how many units in the last place a step is moved at most."""

SHORTEST_DOT, MOST_TERMS = 1024, 1 << 22
"""From so many terms in each of its sums on, and up to so many in all, a product of matrices is
added up one term after the other besides: shorter sums lose less than their roundings scatter."""

LONGER, SOME_TURNS = 4, 256
"""How many times as often as without errors a loop may turn with them, and how often it may in any
case: of errors that are drawn, a loop that waits for something exact may never see an end."""

POOL = 1 << 16
"""So many random numbers serve all steps of an evaluation, each from another place on."""


def resamples(graph: Graph) -> bool:
    """Whether operators compute places between pixels."""
    return any(map(_computes_places, graph.walk()))


def _computes_places(node: Node) -> bool:
    linear = node.op is ops.resize and node.params["kinds"][0][0] != "nearest"
    return linear or node.op is ops.grid_sample


class Exact(NamedTuple):
    """Outputs of a graph with no errors, and how often its loops may turn with them; ``sampled``
    are those with places between pixels computed as a runtime does, if these may differ."""

    outputs: list[np.ndarray]
    most: int
    sampled: list[np.ndarray] | None


class Noise:
    """Evaluations of a graph with every step a little off, for as many inputs as there are.

    Of ``places`` between pixels the file's own operators may be a rounding off.
    """

    def __init__(self, retrace: Callable[[], Graph], places: bool = True) -> None:
        self._retrace = retrace
        self._places = places

    @cached_property
    def _graph(self) -> Graph:
        graph = self._retrace()
        drop_dead(graph)
        decompose(graph, lambda op: op.rounding is Rounding.GIVEN)
        return graph

    @cached_property
    def _divided(self) -> frozenset[Node]:
        """The sums that are divided, by way of other axes perhaps: a runtime may add up numbers
        that it has divided before, as ONNX Runtime's norms do."""
        divisions = (node for node in all_nodes(self._graph) if node.op is ops.div)
        dividends = [n.inputs[0].node for n in divisions]
        for node in dividends:
            if node is not None and node.op in (ops.broadcast_in_dim, ops.reshape):
                dividends.append(node.inputs[0].node)
        sums = (node for node in dividends if node is not None)
        return frozenset(node for node in sums if node.op.rounding is Rounding.SUMS)

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """Parameters by name; those that have no values yet are drawn."""
        bare = [v for v in self._graph.params if v.bound is None]
        drawn = zip([v.name for v in bare], draw_inputs(bare, {}), strict=True)
        return {v.name: v.bound for v in self._graph.params} | dict(drawn)

    @cached_property
    def _run(self) -> Callable[..., tuple[list[Any], Any]]:
        graph = self._graph

        def run(args: Sequence[Any], params: Mapping[str, Any], pool: Any, most: Any) -> Any:
            return evaluate_bounded(graph, args, params, _Mover(pool, self._divided), most)

        # Node by node, what the layers of a network have in common is compiled once. Loops would be
        # compiled anew each time.
        loops = any(node.bodies for node in graph.nodes)
        return jax.jit(run) if loops else run

    @cached_property
    def _sampling(self) -> "Noise | None":
        """Evaluations of the graph with places between pixels computed as a runtime does, if there
        are any: it is a rounding off where JAX's places, or weights, are known exactly."""
        if not self._places:
            return None
        graph = self._graph.clone()
        canonicalize(graph)
        resample(graph, PassSettings(target="standard"))
        if not resamples(graph):
            return None
        sweep(graph, dict.fromkeys((ops.grid_sample, ops.resize), spelled_out))
        return Noise(lambda: graph, False)

    def exact(self, args: Sequence[Any]) -> Exact:
        """The outputs with no errors."""
        outputs, turns = self._outputs(args, 0, ENDLESS)
        most = min(LONGER * turns + SOME_TURNS, ENDLESS)
        sampled = None if self._sampling is None else self._sampling._outputs(args, 0, most)[0]
        return Exact(outputs, most, sampled)

    def moved(self, args: Sequence[Any], seed: int, exact: Exact) -> list[np.ndarray] | None:
        """The outputs, with other errors for each ``seed``; None if a loop was not at its end."""
        outputs, turns = self._outputs(args, seed, exact.most)
        if turns >= exact.most:
            return None
        if self._sampling is None or exact.sampled is None:
            return outputs
        moved, _ = self._sampling._outputs(args, seed, exact.most)
        return [_further(*each) for each in zip(outputs, moved, exact.sampled, strict=True)]

    def _outputs(self, args: Sequence[Any], seed: int, most: int) -> tuple[list[np.ndarray], int]:
        units = UNITS if seed else 0
        pool = np.random.default_rng(seed).uniform(-units, units, POOL).astype(np.float32)
        with precision(all_nodes(self._graph)), np.errstate(all="ignore"):
            outputs, turns = self._run(list(args), self.params, pool, np.int32(most))
            return [np.asarray(y) for y in outputs], int(turns)


class _Mover:
    """Applies nodes, their results moved by so many units in the last place.

    It computes with numpy, and with JAX while that is tracing.
    """

    def __init__(self, pool: Any, divided: frozenset[Node]) -> None:
        self._pool = pool
        self._divided = divided
        self._place = count()
        self._np: Any = np if isinstance(pool, np.ndarray) else jnp

    def __call__(self, node: Node, args: Sequence[Any], sizes: Sizes) -> list[Any]:
        results = self._moved(node, args, sizes)
        is_open = node.op.any_zero or node.op.rounding is Rounding.FUNCTION
        return [self._either_zero(y) for y in results] if is_open else results

    def _moved(self, node: Node, args: Sequence[Any], sizes: Sizes) -> list[Any]:
        rounding = node.op.rounding
        if rounding is Rounding.NONE:
            return self._ran(node, args, sizes)
        args = [self._here(x) for x in args]
        if node.op.divides and isinstance(node.meaning, OfHeld):
            args = [self._either_zero(x) for x in args]  # which infinity it is depends on them
        if node.op.linear is Linear.EACH and is_float(node.out.dtype):
            # A product of integers with a float result rounds the integers first.
            args = [x if is_float(x.dtype) else x.astype(node.out.dtype) for x in args]
        floats = [x for x in args if is_float(x.dtype)]
        exact = node not in self._divided and _stays_exact(rounding, floats)
        if rounding is Rounding.ADDS:
            return [self._added(node, args, exact, sizes)]
        if rounding is Rounding.CANCELS:
            return [self._cancelling(node, args, sizes)]
        if rounding is Rounding.NORMWISE:
            args = [self._off_as_a_whole(x, node, i) for i, x in enumerate(args)]
        elif rounding not in (Rounding.ONCE, Rounding.FUNCTION):
            args = [self._off(x, exact) for x in args]
        results = [self._here(y) for y in self._ran(node, args, sizes)]
        results = [self._in_some_order(node, args, *results)] if len(results) == 1 else results
        floor = args[0].dtype.type(1) if node.op is ops.logistic else None
        return [self._off(y, exact, floor) for y in results]

    def _in_some_order(self, node: Node, args: Sequence[Any], total: Any) -> Any:
        """A sum up to half as far off as one number after the other is, or one without roundings.

        What partial sums lose adds up: of numbers that differ as the square root of their count, of
        equal ones in proportion to it, for as long as the last digit stays the same they lose the
        same each time. No operand can be moved at random so that a sum moves as far. ONNX Runtime
        adds up like that along any axis but the last, and XLA products in a batch. An element may
        be several times as far off as its evaluations scatter, so that half of the way is enough.
        """
        line = self._terms(node, args, total) if is_float(total.dtype) else None
        if line is None:
            return total
        orders = [self._added_up(node, line) - total]
        if self._np is np:
            orders.append(self._added_up(node, line.astype(np.float64)).astype(total.dtype) - total)
        far = reduce(lambda x, y: self._np.where(abs(y) > abs(x), y, x), orders)
        way = abs(self._units(total.shape)).astype(total.dtype) / (2 * UNITS)
        return self._np.where(self._np.isfinite(far), total + way * far, total)

    def _terms(self, node: Node, args: Sequence[Any], total: Any) -> Any | None:
        """What a node adds up, [terms, *others]; None for what is no sum, or no long one."""
        x, params = args[0], node.params
        if node.op is ops.cumsum:
            return self._turned(node, self._np.moveaxis(x, params["axis"], 0))
        if node.op is ops.reduce_sum:
            return self._summed_first(x, params["axes"], ())
        return self._products(node, args, total) if node.op is ops.dot_general else None

    def _added_up(self, node: Node, line: Any) -> Any:
        """Terms that are added up one after the other."""
        if node.op is ops.cumsum:
            sums = self._turned(node, self._accumulated(line))
            return self._np.moveaxis(sums, 0, node.params["axis"])
        nothing = self._np.zeros((1, *line.shape[1:]), line.dtype)
        return self._accumulated(self._np.concatenate([nothing, line]))[-1]

    def _turned(self, node: Node, line: Any) -> Any:
        return line[::-1] if node.params["reverse"] else line

    def _products(self, node: Node, args: Sequence[Any], total: Any) -> Any | None:
        """What a product of matrices adds up, [terms, *result]; None if it is few or too many."""
        operands, (summed, batch) = args, node.params["dimension_numbers"]
        count = math.prod(args[0].shape[axis] for axis in summed[0])
        # Half precision is added up in float32.
        narrow = total.dtype.itemsize < 4
        if narrow or count < SHORTEST_DOT or count * total.size > MOST_TERMS:
            return None
        x, y = (self._summed_first(*each) for each in zip(operands, summed, batch, strict=True))
        shared = len(batch[0]) + 1
        x = x.reshape(*x.shape, *(1,) * (y.ndim - shared))
        y = y.reshape(*y.shape[:shared], *(1,) * (total.ndim + 1 - y.ndim), *y.shape[shared:])
        return x.astype(total.dtype) * y.astype(total.dtype)

    def _summed_first(self, x: Any, summed: Sequence[int], batch: Sequence[int]) -> Any:
        """[terms, *batch, *others]"""
        others = [i for i in range(x.ndim) if i not in (*summed, *batch)]
        shape = [math.prod(x.shape[i] for i in summed), *(x.shape[i] for i in (*batch, *others))]
        return self._np.transpose(x, [*summed, *batch, *others]).reshape(shape)

    def _accumulated(self, line: Any) -> Any:
        """Partial sums along the first axis, of one row more each."""
        if self._np is np:
            return np.add.accumulate(line, 0)
        zeros = jnp.zeros(line.shape[1:], line.dtype)
        _, sums = lax.scan(lambda total, row: (total + row,) * 2, zeros, line)
        return sums

    def _ran(self, node: Node, args: Sequence[Any], sizes: Sizes) -> list[Any]:
        """A node's results; what numpy has is only that of the operands as they are."""
        eager = self._np is np and not isinstance(node.meaning, OfHeld)
        return (run_uncompiled if eager else run_node)(node, args, sizes)

    def _either_zero(self, value: Any) -> Any:
        """Zeros of either sign."""
        if not is_float(value.dtype):
            return value
        value = self._here(value)
        sign = self._units(value.shape).astype(value.dtype)
        return self._np.where((value == 0) & (sign != 0), self._np.copysign(value, sign), value)

    def _cancelling(self, node: Node, args: Sequence[Any], sizes: Sizes) -> Any:
        """A result moved as far as float64 is from it, besides."""
        result = self._here(self._ran(node, args, sizes)[0])
        with enable_x64(True), np.errstate(invalid="ignore"):
            truth = run_node(node, [x.astype(np.float64) for x in args], sizes)[0]
            lost = abs(result - self._here(truth)).astype(result.dtype)
        far = self._units(result.shape).astype(result.dtype) * lost
        moved = self._off(self._ran(node, [self._off(x, False) for x in args], sizes)[0], False)
        return self._np.where(self._np.isfinite(far), moved + far, moved)

    def _added(self, node: Node, args: Sequence[Any], exact: Any, sizes: Sizes) -> Any:
        products = [v.node is not None and v.node.op.multiplies for v in node.inputs]
        moved = [self._off(x, exact) if p else x for x, p in zip(args, products, strict=True)]
        result = self._here(self._ran(node, moved, sizes)[0])
        absorbed = (abs(result) == abs(moved[0])) | (abs(result) == abs(moved[1]))
        return self._np.where(absorbed, result, self._off(result, exact))

    def _here(self, value: Any) -> Any:
        return self._np.asarray(value) if is_float(value.dtype) else value

    def _off(self, value: Any, exact: Any, floor: Any = None) -> Any:
        """Every element a little up or down, but for numbers of few digits where ``exact`` holds.

        Numbers below ``floor`` move as much as it does, but not beyond zero. What a processor may
        take for zero is taken for zero by half of the evaluations: multiplied by a large number,
        it would be another result.
        """
        if not is_float(value.dtype):
            return value
        info, xp = jnp.finfo(value.dtype), self._np
        step = (self._units(value.shape) * float(info.eps)).astype(value.dtype)
        least = value.dtype.type(info.smallest_normal) if floor is None else floor / 8
        far = xp.copysign(abs(value) + least * abs(step), value)
        small = (abs(value) < least) & ((value != 0) | (floor is not None))
        moved = xp.where(small, far, value * (1 + step))
        if not isinstance(exact, bool) or exact:
            moved = xp.where(exact & _is_short(value), value, moved)
        is_flushed = (abs(value) < value.dtype.type(_flushed_below(info))) & (step < 0)
        moved = xp.where(is_flushed, xp.copysign(xp.zeros_like(value), value), moved)
        return moved.astype(value.dtype)  # ml_dtypes 0.5.0 makes float32 of bfloat16 and a number

    def _off_as_a_whole(self, value: Any, node: Node, place: int) -> Any:
        """Every element of a matrix off as much as the largest that is read, or as what bounds it
        where rows and columns are each for themselves; in a large matrix more.

        In an element meet as many roundings as the matrix has rows, and they add up as the square
        root of that (Higham, *Accuracy and Stability of Numerical Algorithms*, 2002, section 2.8;
        section 19.3 for columns that are orthogonalized, 9.3 for those that are eliminated and 10.1
        for Cholesky's factor).
        """
        if not is_float(value.dtype):
            return value
        parts = 2 if isinstance(node.meaning, OfHeld) else 1  # of its numbers
        finite = self._np.where(self._np.isfinite(value), abs(value), 0)
        if parts > 1:
            finite = finite.max(-1)
        if place == 0 and node.op.triangle:
            finite = finite * _triangle(node, finite.shape[-2:])
        size = self._largest(finite, node.op.vectors(place, node.params) if node.op.vectors else "")
        rows = max(finite.shape[-2:], default=1)
        size = 8 * size * math.sqrt(parts * rows)
        return self._off(value, False, size[..., None] if parts > 1 else size)

    def _largest(self, size: Any, apart: Vectors) -> Any:
        """The largest element of matrices, or of what is by itself of them: an axis of one."""
        if apart == "both":
            root = self._np.sqrt(self._np.diagonal(size, 0, -2, -1))
            return root[..., :, None] * root[..., None, :]
        axes = {"rows": (-1,), "columns": (-2,), "": (-2, -1)[-size.ndim :]}[apart]
        return size.max(axes, keepdims=True, initial=0)

    def _units(self, shape: tuple[int, ...]) -> Any:
        """Random numbers, other ones for each step."""
        start, size = next(self._place) * 977 % (POOL // 2), math.prod(shape)
        if start + size <= POOL:
            return self._pool[start : start + size].reshape(shape)
        return self._np.resize(self._pool[start:], shape)


def _further(value: np.ndarray, moved: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Floats, as much further off as others have been moved."""
    if not is_float(value.dtype):
        return value
    with np.errstate(invalid="ignore", over="ignore"):
        far = moved - exact
        return np.where(np.isfinite(far), value + far, value)


def _triangle(node: Node, shape: tuple[int, int]) -> np.ndarray:
    """Elements that are read of a matrix: of two factors that lie in one the other may be a million
    times as large."""
    assert node.op.triangle is not None
    lower, strict = node.op.triangle(node.params)
    rows, columns = shape if lower else shape[::-1]
    below = np.tri(rows, columns, -int(strict), dtype=bool)
    return below if lower else below.T


def _flushed_below(info: Any) -> float:
    """Below what XLA takes numbers for zero; half precision it computes in float32."""
    return min(float(info.smallest_normal), float(jnp.finfo(np.float32).smallest_normal))


def _is_short(x: Any) -> Any:
    """Where numbers have so few digits that sums and products of two are exact.

    Adding and subtracting a large multiple leaves the upper half of the digits (Veltkamp).
    """
    digits = int(jnp.finfo(x.dtype).nmant)
    large = x * x.dtype.type(2.0 ** (digits - digits // 2) + 1)
    return large - (large - x) == x


TESTS: Mapping[Rounding, Callable[[Any], Any]] = {
    Rounding.ONCE: _is_short,  # IEEE 754 has one result
    Rounding.ADDS: _is_short,
    Rounding.FUNCTION: lambda x: _is_short(x) & (abs(x) <= 1),  # of 0, 1 and -1, if at all
    Rounding.SUMS: lambda x: _is_short(x).all(),
}
"""Of which operands an operation does not round, if its result is a number of few digits."""


def _stays_exact(rounding: Rounding, args: Sequence[Any]) -> Any:
    return rounding in TESTS and reduce(operator.and_, map(TESTS[rounding], args), True)
