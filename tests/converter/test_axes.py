"""Views of values through random chains of operations that only move elements.

The elements that a view describes, and the nodes emitted for it, are compared with numpy.
"""

import math
import random

import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from converter.ir import Graph, Value, axes, dims, evaluation, moves, ops
from converter.ir.rewrite import Editor

SIZES = {"b": 5, "h": 3}
B, H = export.symbolic_shape("b, h")
STATIC, NAMED = (2, 3, 4, 6), (B, 2, H, 3, 2 * H)


class Chain:
    """A value and up to six random operations that only move its elements, with all their results.

    ``atoms`` has the sizes whose product an axis is, for each axis of the last value; a reshape may
    split an axis between them.
    """

    def __init__(self, seed, choices):
        self.rng = random.Random(seed)
        self.atoms = [self.rng.sample(choices, 1) for _ in range(self.rng.randint(1, 3))]
        self.input = Value(self.shape, np.dtype(np.int64), kind="input")
        self.editor = Editor(Graph([self.input], [], []))
        self.values = [self.input]
        for _ in range(self.rng.randint(1, 6)):
            self.rng.choice((self.transpose, self.reshape, self.slice, self.broadcast, self.rev))()

    @property
    def shape(self):
        return tuple(dims.size_product(atoms) for atoms in self.atoms)

    def add(self, op, **params):
        self.values.append(self.editor.add(op, self.values[-1:], self.shape, np.int64, params))

    def transpose(self):
        order = self.rng.sample(range(len(self.atoms)), len(self.atoms))
        self.atoms = [self.atoms[i] for i in order]
        self.add(ops.transpose, permutation=tuple(order))

    def reshape(self):
        """Begin no, one or two new axes after each atom; axes may be split, merged or inserted."""
        flat = [[]]
        for atom in (atom for atoms in self.atoms for atom in atoms):
            flat[-1].append(atom)
            flat += [[] for _ in range(self.rng.choice((0, 1, 1, 2)))]
        self.atoms = flat
        self.add(ops.reshape, shape=self.shape)

    def slice(self):
        starts, stops, strides = [0] * len(self.atoms), list(self.shape), [1] * len(self.atoms)
        for i, size in enumerate(self.shape):
            if dims.is_static(size) and size > 1 and self.rng.random() < 0.6:
                starts[i] = self.rng.randrange(size)
                stops[i] = self.rng.randint(starts[i] + 1, size)
                strides[i] = self.rng.choice((1, 1, 2))
                self.atoms[i] = [len(range(starts[i], stops[i], strides[i]))]
        self.add(ops.slice, start_indices=starts, limit_indices=stops, strides=strides)

    def broadcast(self):
        old_atoms, dimensions = self.atoms, list[int]()
        self.atoms = []
        for atoms in old_atoms:
            self.atoms += [[self.rng.choice((1, 3, B))] for _ in range(self.rng.choice((0, 0, 1)))]
            dimensions.append(len(self.atoms))
            is_broadcast = dims.is_same_dim(dims.size_product(atoms), 1) and self.rng.random() < 0.5
            self.atoms.append([4] if is_broadcast else atoms)
        self.add(ops.broadcast_in_dim, shape=self.shape, broadcast_dimensions=tuple(dimensions))

    def rev(self):
        reversed_axes = tuple(i for i in range(len(self.atoms)) if self.rng.random() < 0.4)
        self.add(ops.rev, dimensions=reversed_axes)


NUMPY = {
    ops.transpose: lambda x, permutation: np.transpose(x, permutation),
    ops.reshape: lambda x, shape: np.reshape(x, shape),
    ops.slice: lambda x, start_indices, limit_indices, strides: x[
        tuple(map(slice, start_indices, limit_indices, strides))
    ],
    ops.broadcast_in_dim: lambda x, shape, broadcast_dimensions: np.broadcast_to(
        np.expand_dims(x, (*({*range(len(shape))} - {*broadcast_dimensions}),)), shape
    ),
    ops.rev: lambda x, dimensions: np.flip(x, dimensions),
}


def evaluate_with_numpy(chain, value, x):
    """Return a value of the chain's graph, computed with numpy from the chain's input."""
    graph = Graph([chain.input], [value], chain.editor.nodes)

    def apply(node, args, _):
        return [NUMPY[node.op](np.asarray(args[0]), **dims.substitute_sizes(node.params, SIZES))]

    results = [x] if value is chain.input else evaluation.evaluate(graph, [x], apply=apply)
    return np.asarray(results[0])


def take_view(view, base, shape):
    """Return the elements of the base that a view of this shape describes, read one by one."""
    index = [np.full(shape, dims.evaluate_dim(start, SIZES)) for start in view.starts]
    for axis, group in enumerate(view.groups):
        position = np.arange(shape[axis])
        for factor in reversed(group):
            position, digit = divmod(position, dims.evaluate_dim(factor.size, SIZES))
            if factor.axis is not None:
                offset = digit * dims.evaluate_dim(factor.stride, SIZES)
                index[factor.axis] += offset.reshape(-1, *(1,) * (len(shape) - axis - 1))
    return base[tuple(index)]


def chains(choices):
    for seed in range(100):
        chain = Chain(seed, choices)
        shape = dims.substitute_sizes(chain.input.shape, SIZES)
        yield chain, np.arange(math.prod(shape)).reshape(shape)


def views_of_last_value(chain):
    """Yield the last value as a view of each earlier value, until it is no view of one."""
    view = axes.view_of(chain.values[-1])
    while view is not None:
        yield view
        view = moves.view_of_operand(view)


@pytest.mark.parametrize("choices", [STATIC, NAMED], ids=["static", "named"])
def test_views_have_the_elements_of_numpy(choices):
    """A view has numpy's elements as it is, emitted again as nodes, and cut along an axis."""
    full_count = emitted_count = 0
    for chain, x in chains(choices):
        expected = evaluate_with_numpy(chain, chain.values[-1], x)
        for view in views_of_last_value(chain):
            base = evaluate_with_numpy(chain, view.base, x)
            assert np.array_equal(take_view(view, base, expected.shape), expected)
            if view.has_nested_factors():
                emitted = moves.emit_view(chain.editor, view, chain.values[-1].shape)
                assert np.array_equal(evaluate_with_numpy(chain, emitted, x), expected)
                emitted_count += 1
            for axis, size in enumerate(chain.shape):
                ranges = ((0, size // 2), (size // 2, size)) if dims.is_static(size) else ()
                for start, stop in ranges:
                    part = view.slice_axis(axis, start, stop - start)
                    if part is not None and stop > start:
                        expected_part = np.take(expected, range(start, stop), axis)
                        assert np.array_equal(
                            take_view(part, base, expected_part.shape), expected_part
                        )
        full_count += view.base is chain.input
    assert full_count > 80 and emitted_count > 270, (full_count, emitted_count)


def convert_to(*dtypes):
    """Return an input of the first dtype, and its conversions to the others in turn."""
    values = [Value((2,), np.dtype(dtypes[0]), kind="input")]
    editor = Editor(Graph(values[:], [], []))
    for dtype in dtypes[1:]:
        values.append(editor.convert(values[-1], dtype))
    return values


def move_in_turn():
    """Return an input, its transpose, the split of an axis, one row, two copies, and a
    concatenation with these."""
    x = Value((4, 3), np.dtype(np.float32), kind="input")
    editor = Editor(Graph([x], [], []))
    transposed = editor.transpose(x, (1, 0))
    split = editor.reshape(transposed, (3, 2, 2))
    row = editor.slice(split, 0, 1, 2)
    copies = editor.broadcast(row, (2, 2, 2), (0, 1, 2))
    return [x, transposed, split, row, copies, editor.concatenate([copies, copies], 0)]


@pytest.mark.parametrize(
    ("values", "start", "options", "end"),
    [
        (convert_to("float16", "float32"), 1, {}, 0),
        (convert_to("float16", "float32"), 1, {"conversions": "none"}, 1),
        (convert_to("float32", "float16", "float32"), 2, {}, 1),
        (convert_to("float32", "float16", "float32"), 2, {"conversions": "rounding"}, 0),
        (convert_to("float32", jnp.float8_e5m2), 1, {"conversions": "rounding"}, 1),
        (convert_to("int32", "float32"), 1, {"conversions": "rounding"}, 1),
        (move_in_turn(), 1, {}, 0),
        (move_in_turn(), 2, {}, 2),
        (move_in_turn(), 2, {"reach": "factors"}, 0),
        (move_in_turn(), 4, {"reach": "factors"}, 3),
        (move_in_turn(), 4, {"reach": "parts"}, 0),
        (move_in_turn(), 4, {"reach": "elements"}, 0),
        (move_in_turn(), 5, {"reach": "parts"}, 5),
        (move_in_turn(), 4, {"reach": "parts", "leaves": "row"}, 3),
    ],
)
def test_a_view_is_followed_as_far_as_its_options_say(values, start, options, end):
    if "leaves" in options:
        options = {**options, "leaves": {id(values[3])}}
    view = moves.look_through(axes.view_of(values[start]), **options)
    assert view.base is values[end]


def test_a_view_goes_through_the_operand_with_all_its_elements():
    *_, copies, joined = move_in_turn()
    half = axes.view_of(joined).slice_axis(0, 2, 2)
    assert moves.view_of_concatenated_operand(half).base is copies
    assert moves.look_through(half, reach="parts").base.kind == "input"
    assert moves.look_through(half, reach="elements").base is joined
