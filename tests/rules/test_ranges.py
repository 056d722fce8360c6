"""The range that the converter infers for a value contains all elements of drawn programs."""

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from converter.ir import Graph, Value, const, make_node, ops
from converter.ir.dtypes import is_float
from converter.ir.op import Op
from converter.ir.ranges import _RANGES, Range, known_range
from tests.rules import canonical
from tests.rules.programs import ALL, FLOATS, NUMBERS, Drawn, Expr
from tests.rules.prove import Case, Draw, numbers_of, search

ROUNDS, ENOUGH = 6, 8


def of_bounded(op: Op) -> Draw:
    """Return a draw of the operation, applied to operands with bounds."""
    fn, kinds = canonical.LAX[op], canonical.dtypes_of(op)

    def draw(d: Drawn) -> Expr:
        shape, dtype = d.pick(((2, 3), ("n", 3))), d.pick(kinds)
        count = canonical.COUNT.get(op) or (2 if op.broadcasts else 1)
        return d.apply(fn, *(d.bounded(shape, dtype, 1) for _ in range(count)))

    return draw


def converted(d: Drawn) -> Expr:
    target = np.dtype(d.pick((*ALL, *SMALL)))
    x = d.bounded((2, 3), d.pick(ALL), 1)
    return d.apply(lambda a: lax.convert_element_type(a, target), x)


SMALL = (jnp.float8_e4m3fn, jnp.float8_e5m2)


def of_node(op: Op, shape: tuple[int, ...], *operands: Value, **params: Any) -> Case:
    """Return a case for a node that JAX does not trace: the operation on a bounded operand."""

    def insert(graph: Graph) -> None:
        x = graph.outputs[0]
        meaning = None if op.formula else lambda arrays, _: [MEANINGS[op](*arrays)]
        inputs = [x, *(operands or [x] * (op is ops.add_any))]
        node = make_node(op, inputs, [(shape, x.dtype)], params, meaning=meaning)
        graph.nodes.append(node)
        graph.outputs = [node.out]

    return Case(lambda d: d.bounded((2, 3), d.pick(FLOATS), 1), prepare=[insert])


MEANINGS = {ops.add_any: lax.add, ops.tile: lambda x: jnp.tile(x, (2, 1))}


def arg_extreme(fn: Any) -> Draw:
    kinds = (np.int32, np.int8)
    return lambda d: d.apply(lambda x: fn(x, 1, kinds[d.integer(0, 1)]), d.bounded((2, 3), "int32"))


def dynamic_slice(d: Drawn) -> Expr:
    x, start = d.bounded((2, 3), d.pick(NUMBERS), 1), d.input((), "int32")
    return d.apply(lambda a, i: lax.dynamic_slice(a, (i, i), (1, 2)), x, start)


CASES = {
    **{op: Case(of_bounded(op)) for op in canonical.LAX if op is not ops.select_n},
    ops.convert_element_type: Case(converted),
    ops.argmax: Case(arg_extreme(lax.argmax)),
    ops.argmin: Case(arg_extreme(lax.argmin)),
    ops.iota: Case(lambda d: d.iota(d.pick(((2, 300), ("n", 3))), d.pick(NUMBERS))),
    ops.dynamic_slice: Case(dynamic_slice),
    ops.take: of_node(ops.take, (3, 3), const([0, 1, -1], np.int32), axis=0),
    ops.select_index: of_node(ops.select_index, (3,), axis=0, index=1),
    ops.clip: of_node(ops.clip, (2, 3), low=-1.0, high=2.5),
    ops.relu: of_node(ops.relu, (2, 3)),
    ops.tile: of_node(ops.tile, (4, 3)),
    ops.add_any: of_node(ops.add_any, (2, 3)),
}


def case_of(op: Op) -> Case:
    return CASES.get(op) or canonical.case_of(op)


def check_ranges(op: Op, ends: set[str], drawn: Drawn) -> bool:
    """Return whether the drawn graph has the operation, and assert that each value is in its range.

    The ends of the operation's range that its elements reach are added to `ends`.
    """
    case = case_of(op)
    assert case.draw is not None
    result = case.draw(drawn)
    graph = drawn.graph(*([result] if isinstance(result, Expr) else result))
    for step in case.prepare:
        step(graph)
    if not graph.count(op):
        return False
    values = [v for node in graph.nodes for v in node.outputs if not node.bodies]
    text = str(graph)
    graph.outputs = values
    for value, numbers in zip(values, numbers_of(graph, drawn), strict=True):
        range_ = known_range(value)
        assert type(range_.low) in PLAIN and type(range_.high) in PLAIN, range_
        assert _is_within(value, numbers, range_), f"{range_} of {value}: {numbers}\n{text}"
        if value.node.op is op and numbers.size and value.dtype.kind != "c":
            ends |= {"low"} if numbers.min() == range_.low else set()
            ends |= {"high"} if numbers.max() == range_.high else set()
    return True


LOOSE = {
    ops.add_any: "draws are of numbers without bounds",
    ops.reduce_sum: "no draw has the largest number everywhere",
    ops.dim_as_value: "a size has no largest number",
}
"""Operations whose draws do not reach the ends of their range, with the reasons."""

PLAIN = (int, float)


def _is_within(value: Value, numbers: np.ndarray, range_: Range) -> bool:
    if value.dtype.kind == "c":
        return True
    elements = numbers.astype(np.float64 if is_float(value.dtype) else object)
    is_nan = is_float(value.dtype) & (elements != elements)
    return bool(
        np.all(np.where(is_nan, range_.nan, (range_.low <= elements) & (elements <= range_.high)))
    )


@pytest.mark.parametrize("op", _RANGES, ids=str)
def test_ranges_contain_all_elements(op: Op) -> None:
    """All elements are within the range, and some element reaches each end of it."""
    ends: set[str] = set()
    assert search(partial(check_ranges, op, ends), 0, ROUNDS, ENOUGH), "no draw has this operation"
    expected = {"low", "high"} if op not in LOOSE else ends
    if ends != expected:
        search(lambda drawn: check_ranges(op, ends, drawn) and ends == expected, ROUNDS, ROUNDS, 1)
    assert ends == expected
