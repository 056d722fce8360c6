"""Views of values through random chains of what only moves, against numpy."""

import math
import random

import numpy as np
import pytest
from jax import export

from converter.ir import Graph, Value, axes, dims, evaluation, moves, ops
from converter.ir.rewrite import Editor

SIZES = {"b": 5, "h": 3}
B, H = export.symbolic_shape("b, h")
STATIC, NAMED = (2, 3, 4, 6), (B, 2, H, 3, 2 * H)


class Chain:
    """A value moved again and again; each axis is a product of sizes, and can be split."""

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
        """Between any two atoms a new axis may begin, or two; whole axes go on as one."""
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
        before, places = self.atoms, list[int]()
        self.atoms = []
        for atoms in before:
            self.atoms += [[self.rng.choice((1, 3, B))] for _ in range(self.rng.choice((0, 0, 1)))]
            places.append(len(self.atoms))
            grows = dims.is_same_dim(dims.size_product(atoms), 1) and self.rng.random() < 0.5
            self.atoms.append([4] if grows else atoms)
        self.add(ops.broadcast_in_dim, shape=self.shape, broadcast_dimensions=tuple(places))

    def rev(self):
        turned = tuple(i for i in range(len(self.atoms)) if self.rng.random() < 0.4)
        self.add(ops.rev, dimensions=turned)


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


def computed(chain, value, x):
    """A value of the chain, or one written behind it, by numpy."""
    graph = Graph([chain.input], [value], chain.editor.nodes)

    def apply(node, args, _):
        return [NUMPY[node.op](np.asarray(args[0]), **dims.substitute_sizes(node.params, SIZES))]

    found = [x] if value is chain.input else evaluation.evaluate(graph, [x], apply=apply)
    return np.asarray(found[0])


def taken(view, base, shape):
    """What a view says, element by element."""
    index = [np.full(shape, dims.evaluate_dim(start, SIZES)) for start in view.starts]
    for axis, group in enumerate(view.groups):
        place = np.arange(shape[axis])
        for factor in reversed(group):
            place, digit = divmod(place, dims.evaluate_dim(factor.size, SIZES))
            if factor.axis is not None:
                along = digit * dims.evaluate_dim(factor.stride, SIZES)
                index[factor.axis] += along.reshape(-1, *(1,) * (len(shape) - axis - 1))
    return base[tuple(index)]


def chains(choices):
    for seed in range(100):
        chain = Chain(seed, choices)
        shape = dims.substitute_sizes(chain.input.shape, SIZES)
        yield chain, np.arange(math.prod(shape)).reshape(shape)


def seen(chain):
    """The last value as a view of each of those before it, as far as it is one."""
    view = axes.view_of(chain.values[-1])
    while view is not None:
        yield view
        view = moves.view_of_operand(view)


@pytest.mark.parametrize("choices", [STATIC, NAMED], ids=["static", "named"])
def test_a_view_is_what_numpy_gives(choices):
    """Whole, written again, and cut along an axis."""
    whole = written = 0
    for chain, x in chains(choices):
        wanted = computed(chain, chain.values[-1], x)
        for view in seen(chain):
            base = computed(chain, view.base, x)
            assert np.array_equal(taken(view, base, wanted.shape), wanted)
            if view.is_writable():
                again = moves.emit_view(chain.editor, view, chain.values[-1].shape)
                assert np.array_equal(computed(chain, again, x), wanted)
                written += 1
            for axis, size in enumerate(chain.shape):
                parts = ((0, size // 2), (size // 2, size)) if dims.is_static(size) else ()
                for start, stop in parts:
                    part = view.slice_axis(axis, start, stop - start)
                    if part is not None and stop > start:
                        lines = np.take(wanted, range(start, stop), axis)
                        assert np.array_equal(taken(part, base, lines.shape), lines)
        whole += view.base is chain.input
    assert whole > 80 and written > 270, (whole, written)
