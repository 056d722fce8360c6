"""Search for inputs that take the sides of a program that no basic sample takes.

The search changes inputs at random. If an input is the first one to reach a side, or the first one
for which a comparison has a certain result, it is mutated further, as in coverage-guided fuzzing
(libFuzzer, AFL). A mutation changes signs or magnitudes, inserts constants of the program or
numbers close to them, uses the smallest or largest indices, or combines two inputs. Only the part
of the graph that determines which sides are taken is evaluated (``converter.verify.branches``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import Any

import jax.numpy as jnp
import numpy as np

from converter.frontend.trace import source_line
from converter.ir import Graph, Node, dims, named_sizes, ops
from converter.ir.dtypes import is_float
from converter.verify.allowed_integers import AllowedIntegers, allowed_integers
from converter.verify.branches import Probe, Side
from converter.verify.endless_loops import keep_ending_samples
from converter.verify.samples import EXTRA_DISTRIBUTIONS, Sampler, basic_samples

MIN_SAMPLES = 32
"""Number of samples of a small function."""

MAX_SMALL_NODES, MAX_SMALL_WORK = 300, 1_000_000
"""A function is small if it has at most ``MAX_SMALL_NODES`` nodes and computes at most
``MAX_SMALL_WORK`` numbers. Each term of a matrix product counts as a number."""

MAX_TRIES = 256
"""Largest number of inputs that the search tries."""

MAX_SEARCH_STEPS = 10_000
"""Largest number of nodes that the search evaluates, in all tries together."""

BASIC_SEEDS = 6
"""Number of seeds that the basic samples use."""

MIN_SCALE_EXPONENT, MAX_SCALE_EXPONENT = 0.5, 8.0
"""Decimal exponents of the scales of floats: the first tries scale by less than 10^0.5, the last by
up to 10^8."""

Arrays = list[np.ndarray]


@dataclass
class Coverage:
    """Sides of a program, and which of them the samples took.

    Arguments:
        sides: the sides of the program that are possible.
        reached: one Boolean for each side, true if a sample took it.
        tried: number of inputs that were tried, including those that became no samples.
        left_out: a sentence for each sample that was left out because a loop does not end on it.
    """

    sides: Sequence[Side] = ()
    reached: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))
    tried: int = 0
    left_out: Sequence[str] = ()

    def untaken(self, line: Callable[[Node], str] = source_line) -> list[str]:
        """Return a sentence for each side that no sample took, without duplicates and in the order
        of the sides, and the sentences about samples that were left out.

        ``line`` returns the text for the source line of a node.
        """
        pairs = zip(self.sides, self.reached, strict=True)
        sentences = (
            side.describe_untaken(self.tried, line) for side, is_taken in pairs if not is_taken
        )
        return list(dict.fromkeys([*sentences, *self.left_out]))


def draw_steered_samples(
    graph: Graph,
    traced: Graph,
    params: Mapping[str, Any] | None,
    seed: int = 0,
    allows_extra: bool = True,
) -> tuple[list[tuple[str, Arrays]], Coverage]:
    """Draw samples of a graph's inputs, and search for additional samples that take the remaining
    sides.

    A side is a branch, a number of loop iterations, or a side of an index bound. A small function
    (``is_small``) gets at least ``MIN_SAMPLES`` samples, if its loops end soon enough for them. In
    a large function, a steered sample replaces the sample from which it was mutated, unless some
    side is taken only by the original sample.

    Arguments:
        graph: the converted graph. Its inputs are drawn (``converter.verify.samples.Sampler``).
        traced: the graph as it was traced. Its sides are observed.
        params: values of the parameters by name. None if they have no values yet; the sides cannot
            be observed then.
        seed: seed of the samples.
        allows_extra: False to treat every function as a large one.

    Returns:
        Names and inputs of the samples, without those on which a loop does not end, and their
        coverage. The coverage has no sides if the sides cannot be observed.

    Raises:
        CheckError: no sizes of named dimensions are allowed (``Sampler.sizes``), or a loop ends on
            no basic sample.
    """
    sampler = Sampler(graph, traced)
    drawn = list(basic_samples(sampler, seed))
    is_small_function = allows_extra and is_small(traced, sampler.sizes())
    probe = None if params is None else Probe(traced, params)
    if probe is None or not probe.sides:
        drawn += (
            islice(_extra_samples(sampler, seed), MIN_SAMPLES - len(drawn))
            if is_small_function
            else []
        )
        return drawn, Coverage(tried=len(drawn))
    drawn, left_out = keep_ending_samples(traced, params or {}, probe, drawn)
    search = _Search(probe, sampler.allowed_integers, drawn, seed)
    if is_small_function:
        search.add(_extra_samples(sampler, seed))
    search.run()
    return search.samples(is_small_function), replace(search.coverage(), left_out=left_out)


def steer_inputs(
    traced: Graph, params: Mapping[str, Any], inputs: Sequence[Arrays]
) -> list[Arrays]:
    """Return sets of inputs, some of them replaced by mutated ones that take more sides of the
    program.

    A side is a branch, a number of loop iterations, or a side of an index bound. The number and the
    order of the sets stay the same. A set is replaced only if its replacement, other sets or
    further inputs that the search found take all of its sides. All sets are returned unchanged if
    the program has no sides.

    Arguments:
        traced: the graph as it was traced.
        params: values of the parameters by name.
        inputs: the original sets of inputs, which may have different sizes.
    """
    probe = Probe(traced, params)
    if not probe.sides:
        return list(inputs)
    named = [(str(i), arrays) for i, arrays in enumerate(inputs)]
    search = _Search(probe, allowed_integers(traced), named, seed=0)
    search.run()
    return [arrays for _, arrays in search.samples(False)[: len(inputs)]]


def measure_coverage(
    traced: Graph | None, params: Mapping[str, Any] | None, inputs: Iterable[Sequence[Any]]
) -> Coverage:
    """Return which sides of a traced graph the given inputs take.

    Arguments:
        traced: the graph as it was traced; None if JAX cannot trace the function.
        params: values of the parameters by name; None if they have no values.
        inputs: the sets of inputs, in the form that they have in the graph.

    Returns:
        The coverage. It has no sides if there is no graph or no parameter values.
    """
    samples = list(inputs)
    if traced is None or params is None:
        return Coverage(tried=len(samples))
    probe = Probe(traced, params)
    reached = np.zeros(len(probe.sides), bool)
    for arrays in samples if probe.sides else ():
        reached |= probe(arrays).sides
    return Coverage(probe.sides, reached, len(samples))


def _extra_samples(sampler: Sampler, seed: int) -> Iterator[tuple[str, Arrays]]:
    """Yield the names and inputs of extra samples without end, from ``EXTRA_DISTRIBUTIONS`` in
    turn."""
    for index in count():
        number, kind = divmod(index, len(EXTRA_DISTRIBUTIONS))
        name = [*EXTRA_DISTRIBUTIONS][kind]
        yield f"{name} {number + 2}", sampler.draw(name, seed + BASIC_SEEDS + index)


# -------------------------------------------------------------------------------- size of a graph


def is_small(graph: Graph, sizes: named_sizes.Sizes) -> bool:
    """Return True if a function is small enough that many samples of it take little time.

    The limits are ``MAX_SMALL_NODES`` nodes and ``MAX_SMALL_WORK`` computed numbers. ``sizes`` are
    the sizes of the named dimensions.
    """
    return (
        sum(1 for _ in graph.walk()) <= MAX_SMALL_NODES
        and count_numbers(graph, sizes) <= MAX_SMALL_WORK
    )


def count_numbers(graph: Graph, sizes: named_sizes.Sizes) -> int:
    """Return how many numbers a graph computes at these sizes of named dimensions.

    Each term of a matrix product or convolution counts as one number. A body counts once for each
    iteration of a scan, and once in a while loop or conditional.
    """
    return sum(_count_node_numbers(node, sizes) for node in graph.nodes)


def _count_node_numbers(node: Node, sizes: named_sizes.Sizes) -> int:
    """Return how many numbers a node computes. A term of a matrix product counts as a number."""
    if node.bodies:
        length = node.params.get("length", 1)
        inner = sum(count_numbers(body, sizes) for body in node.bodies.values())
        return inner * int(dims.substitute_sizes((length,), sizes)[0])
    shapes = (dims.substitute_sizes(v.shape, sizes) for v in node.outputs)
    return sum(map(math.prod, shapes)) * _product_terms(node, sizes)


def _product_terms(node: Node, sizes: named_sizes.Sizes) -> int:
    """Return the number of terms in each sum of a matrix product or convolution.

    It is 1 for other nodes.
    """
    if node.op is ops.dot_general:
        (contracted_axes, _), _ = node.params["dimension_numbers"]
        shape = dims.substitute_sizes(node.inputs[0].shape, sizes)
        return math.prod(shape[axis] for axis in contracted_axes)
    if node.op is ops.conv_general_dilated:
        kernel = dims.substitute_sizes(node.inputs[1].shape, sizes)
        return math.prod(kernel) // max(1, kernel[node.params["dimension_numbers"].rhs_spec[0]])
    return 1


# ----------------------------------------------------------------------------------------- search


@dataclass(frozen=True)
class _Candidate:
    """Inputs with the sides that they take.

    Arguments:
        name: name of the sample.
        arrays: the inputs.
        sides: one Boolean for each side of the program.
        parent: index of the drawn sample that the inputs were mutated from; None for a drawn
            sample.
    """

    name: str
    arrays: Arrays
    sides: np.ndarray
    parent: int | None = None


class _Search:
    """Search for inputs that take further sides of a program, starting from drawn samples.

    Arguments:
        probe: the probe, which observes which sides a set of inputs takes.
        limits: for each input, the integers that it may have.
        drawn: names and inputs of the drawn samples.
        seed: seed of the random mutations.
    """

    def __init__(
        self,
        probe: Probe,
        limits: Sequence[AllowedIntegers],
        drawn: Sequence[tuple[str, Arrays]],
        seed: int,
    ) -> None:
        self.reached = np.zeros(len(probe.sides), bool)
        self.tried = 0
        self._probe = probe
        self._rng = np.random.default_rng(seed)
        self._mutation = Mutation(limits, program_constants(probe), self._rng)
        self._compared = np.zeros(0, bool)
        self._steps = 0
        self._drawn = [_Candidate(name, arrays, self._observe(arrays)) for name, arrays in drawn]
        self._corpus = [(i, candidate.arrays) for i, candidate in enumerate(self._drawn)]
        self._steered = list[_Candidate]()

    def coverage(self) -> Coverage:
        """Return the sides of the program, and which of them were reached so far."""
        return Coverage(self._probe.sides, self.reached, self.tried)

    def _observe(self, arrays: Arrays) -> np.ndarray:
        """Return the sides that a drawn sample takes, and add them to ``self.reached``.

        They are added even if the observation is not valid, because the sample is verified anyway.
        """
        observation = self._probe(arrays)
        self.tried += 1
        self._steps += observation.steps
        self.reached |= observation.sides
        self._record_comparisons(observation.comparisons)
        return observation.sides

    def _record_comparisons(self, results: np.ndarray) -> bool:
        """Record the results of comparisons.

        Return True if a comparison had a result that it did not have for any earlier input.

        ``results`` contains two Booleans for each comparison: whether it was true for some
        elements, and whether it was false for some elements.
        """
        earlier_results = self._compared if self._compared.size else np.zeros(results.size, bool)
        self._compared = earlier_results | results
        return bool((self._compared & ~earlier_results).any())

    def add(self, samples: Iterable[tuple[str, Arrays]]) -> None:
        """Add samples with valid observations to the drawn samples until there are ``MIN_SAMPLES``.

        The method also ends after twice as many tries, or after ``MAX_SEARCH_STEPS`` evaluated
        nodes.
        """
        for name, arrays in islice(samples, 2 * MIN_SAMPLES):
            if len(self._drawn) >= MIN_SAMPLES or self._steps > MAX_SEARCH_STEPS:
                return
            observation = self._probe(arrays)
            self.tried += 1
            self._steps += observation.steps
            if observation.is_valid:
                self.reached |= observation.sides
                self._record_comparisons(observation.comparisons)
                self._corpus.append((len(self._drawn), arrays))
                self._drawn.append(_Candidate(name, arrays, observation.sides))

    def run(self) -> None:
        """Try mutated inputs until all sides are reached.

        The search also ends after ``MAX_TRIES`` inputs, or after ``MAX_SEARCH_STEPS`` evaluated
        nodes.
        """
        for attempt in range(MAX_TRIES):
            if self.reached.all() or self._steps > MAX_SEARCH_STEPS:
                return
            self._attempt(attempt)

    def _attempt(self, attempt: int) -> None:
        """Try one input.

        The first attempts fill all inputs of the first drawn sample with one constant of the
        program. Later ones are random mutations of drawn samples and of inputs that were kept
        (``_try``). ``attempt`` is the number of attempts before.
        """
        numbers = self._mutation.constants
        if attempt < len(numbers):
            self._try(0, self._mutation.fill(self._drawn[0].arrays, numbers[attempt]))
            return
        parent, arrays = self._corpus[self._rng.integers(len(self._corpus))]
        shapes = [x.shape for x in arrays]
        same_shapes = [
            candidate for _, candidate in self._corpus if [x.shape for x in candidate] == shapes
        ]
        other = same_shapes[self._rng.integers(len(same_shapes))]
        sizes = named_sizes.read_sizes([v.shape for v in self._probe.graph.inputs], shapes)
        self._try(parent, self._mutation(arrays, other, sizes, attempt / MAX_TRIES))

    def _try(self, parent: int, arrays: Arrays) -> None:
        """Observe inputs, and keep them for further mutations if the observation is valid and has a
        new side or a new result of a comparison.

        Inputs with a new side also become a steered sample. ``parent`` is the index of the drawn
        sample that the inputs come from.
        """
        observation = self._probe(arrays)
        self.tried += 1
        self._steps += observation.steps
        if not observation.is_valid:
            return
        is_new = bool((observation.sides & ~self.reached).any())
        if is_new:
            self._steered.append(
                _Candidate(f"steered {len(self._steered) + 1}", arrays, observation.sides, parent)
            )
            self.reached |= observation.sides
        if self._record_comparisons(observation.comparisons) or is_new:
            self._corpus.append((parent, arrays))

    def samples(self, small: bool) -> list[tuple[str, Arrays]]:
        """Return the names and inputs of the drawn samples, followed by the steered samples.

        Steered samples reach further sides. If the function is not ``small``, a steered sample
        takes the position of the drawn sample from which it was mutated, unless some side is taken
        only by the sample at this position.
        """
        selected, added = list(self._drawn), list[_Candidate]()
        for candidate in self._steered:
            if small or not self._may_replace(selected, added, candidate):
                added.append(candidate)
            else:
                assert candidate.parent is not None
                selected[candidate.parent] = candidate
        return [(candidate.name, candidate.arrays) for candidate in (*selected, *added)]

    def _may_replace(
        self, selected: Sequence[_Candidate], added: Sequence[_Candidate], candidate: _Candidate
    ) -> bool:
        """Return True if a candidate may replace the sample that it was mutated from.

        All sides of the sample at that position of ``selected`` must be taken by the candidate or
        by other samples, in ``selected`` or ``added``.
        """
        if candidate.parent is None:
            return False
        other_sides = [other.sides for i, other in enumerate(selected) if i != candidate.parent]
        union = np.logical_or.reduce(
            [candidate.sides, *other_sides, *(other.sides for other in added)]
        )
        return not (selected[candidate.parent].sides & ~union).any()


# -------------------------------------------------------------------------------------- mutations


def program_constants(probe: Probe) -> np.ndarray:
    """Return the finite constants in the observed part of a graph and some common numbers such as 0
    and 1.

    There are no duplicates. Constant arrays of more than 16 elements are omitted. The order is by
    magnitude, the largest first.
    """
    numbers = {0.0, 1.0, -1.0, 0.5, 2.0}
    for node in probe.graph.walk():
        for value in node.inputs:
            if value.kind == "const" and value.dtype.kind in "iuf" and 0 < value.const.size <= 16:
                numbers |= {float(x) for x in np.ravel(value.const) if np.isfinite(x)}
    return np.array(sorted(numbers, key=abs))[::-1]


def close_numbers(numbers: np.ndarray) -> np.ndarray:
    """Return the given numbers with their multiples and numbers close to them, sorted and without
    duplicates.

    For x: x - 1, x, x + 1, x · 0.999, x · 1.001, -x, 2x and x / 2.
    """
    close = [(x - 1, x, x + 1, x * (1 - 1e-3), x * (1 + 1e-3), -x, 2 * x, x / 2) for x in numbers]
    return np.unique(np.array(close))


@dataclass
class Mutation:
    """Random mutation of inputs.

    Arguments:
        allowed_integers: for each input, the integers that it may have.
        constants: numbers that mutations write, together with numbers close to them.
        rng: source of the random numbers.
    """

    allowed_integers: Sequence[AllowedIntegers]
    constants: np.ndarray
    rng: np.random.Generator

    def __post_init__(self) -> None:
        self.close_constants = close_numbers(self.constants)

    def fill(self, arrays: Arrays, number: float) -> Arrays:
        """Return inputs that are filled with one number.

        Integer inputs get its integer part. They are returned unchanged if the number is out of the
        range of their dtype, and so are Booleans.
        """
        results = []
        for x in arrays:
            info = np.iinfo(x.dtype) if x.dtype.kind in "iu" else None
            is_representable = is_float(x.dtype) or (
                info is not None and info.min <= number <= info.max
            )
            results.append(np.full(x.shape, number).astype(x.dtype) if is_representable else x)
        return results

    def __call__(
        self, arrays: Arrays, other_arrays: Arrays, sizes: named_sizes.Sizes, progress: float
    ) -> Arrays:
        """Return inputs that are changed at random.

        At least one of the arrays is selected and mutated. In a fifth of the calls, floats are not
        mutated. All of them become a mean of ``arrays`` and ``other_arrays`` instead, with a random
        weight.

        Arguments:
            arrays: the inputs to mutate.
            other_arrays: inputs of the same shapes to mix with.
            sizes: sizes of the named dimensions.
            progress: share of the search that is done, from 0 to 1. Floats are scaled more towards
                its end.
        """
        share, mixes = self.rng.random(), self.rng.random() < 0.2
        is_selected = self.rng.random(len(arrays)) < 0.6
        is_selected[self.rng.integers(len(arrays))] = True
        results = []
        for x, y, limits, is_changed in zip(
            arrays, other_arrays, self.allowed_integers, is_selected, strict=True
        ):
            if mixes and is_float(x.dtype):
                changed = (x + (y - x) * x.dtype.type(share)).astype(x.dtype)
            elif is_changed:
                changed = self._mutate_array(x, limits, sizes, progress)
            else:
                changed = x
            results.append(changed)
        return results

    def _mutate_array(
        self, x: np.ndarray, limits: AllowedIntegers, sizes: named_sizes.Sizes, progress: float
    ) -> np.ndarray:
        """Return an array that is changed at random.

        Integers stay within ``limits`` most of the time (``_bound_integers``). Arrays of other
        dtypes than floats, integers and Booleans are returned unchanged.
        """
        if is_float(x.dtype):
            with np.errstate(over="ignore", invalid="ignore"):
                return self._mutate_floats(x, progress)
        if x.dtype == np.bool_:
            return self.rng.random(x.shape) < self.rng.choice([0.0, 0.1, 0.5, 0.9, 1.0])
        if x.dtype.kind in "iu":
            return self._bound_integers(self._mutate_integers(x), limits, sizes)
        return x

    def _mutate_floats(self, x: np.ndarray, progress: float) -> np.ndarray:
        """Return floats after one random change.

        All or some of the floats are scaled, made positive or negative, shifted by a constant, or
        replaced by constants or random numbers. The scale is between 10^-e and 10^e, where e
        increases with ``progress``. The magnitudes stay below a quarter of the largest float.
        """
        numbers = x.astype(np.float64)
        exponent = MIN_SCALE_EXPONENT + progress * (MAX_SCALE_EXPONENT - MIN_SCALE_EXPONENT)
        scale = 10 ** self.rng.uniform(-exponent, exponent)
        constant = self.rng.choice(self.close_constants)
        changes: tuple[Callable[[], Any], ...] = (
            lambda: np.abs(numbers) * scale,
            lambda: -np.abs(numbers) * scale,
            lambda: numbers * scale,
            lambda: numbers + constant,
            lambda: np.full(x.shape, constant),
            lambda: self._mix_elements(numbers, self.rng.choice(self.close_constants, x.shape)),
            lambda: self._mix_elements(numbers, self.rng.standard_normal(x.shape) * scale),
        )
        largest = float(jnp.finfo(x.dtype).max) / 4
        changed = changes[self.rng.integers(len(changes))]()
        return np.clip(changed, -largest, largest).astype(x.dtype)

    def _mutate_integers(self, x: np.ndarray) -> np.ndarray:
        """Return a copy of integers in which some or all are replaced.

        The new integers are random numbers of the dtype, small numbers, or constants of the
        program.
        """
        info = np.iinfo(x.dtype)
        fitting = self.close_constants[
            (self.close_constants >= info.min) & (self.close_constants <= info.max)
        ]
        any_integer = self.rng.integers(info.min, info.max, x.shape, x.dtype, endpoint=True)
        small = self.rng.integers(max(info.min, -4), 13, x.shape).astype(x.dtype)
        constant = self.rng.choice(fitting).astype(x.dtype)
        changes = (
            any_integer,
            small,
            np.full(x.shape, constant),
            self._mix_elements(x, small),
            self._mix_elements(x, self.rng.choice(fitting, x.shape).astype(x.dtype)),
            self._mix_elements(x, any_integer),
        )
        return changes[self.rng.integers(len(changes))]

    def _mix_elements(self, x: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Return a copy of ``x`` in which some elements are those of ``other``, at least one on
        average."""
        share = max(self.rng.choice([0.1, 0.5]), 1 / max(1, x.size))
        return np.where(self.rng.random(x.shape) < share, other, x)

    def _bound_integers(
        self, x: np.ndarray, limits: AllowedIntegers, sizes: named_sizes.Sizes
    ) -> np.ndarray:
        """Return integers that are within their limits in most calls.

        Loop counts that are no indices, and integers without limits, are passed to
        ``limits.constrain`` in all calls. For indices, a quarter of the calls return ``x``
        unchanged. In another quarter of the calls, signed indices are returned as negative indices,
        which count from the end.

        Arguments:
            x: the integers.
            limits: the integers that the input may have.
            sizes: sizes of the named dimensions.
        """
        if not limits.limits:
            return limits.constrain(x, sizes)
        variant = self.rng.integers(4)
        if variant == 0:
            return x
        bounded = limits.constrain(x, sizes)
        if variant == 1 and x.dtype.kind == "i":
            largest = int(bounded.max(initial=0))
            return (bounded - x.dtype.type(largest + 1)).astype(x.dtype)
        return bounded
