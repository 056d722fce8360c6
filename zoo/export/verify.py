"""Is the file right? ONNX Runtime against JAX, on a photograph, at several sizes."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import onnx_ir as ir
from numpy.typing import ArrayLike, NDArray

import converter
from converter.frontend.source_lines import portable_line
from converter.frontend.trace import trace
from converter.model.verdict import Level
from converter.verify.sessions import levels
from converter.verify.sides import may_have_sides
from converter.verify.steering import coverage_of, steered_inputs
from converter.verify.streaming_evaluation import evaluate_streaming
from weights import bind, leaf_shapes
from zoo.architectures.architecture import Config
from zoo.architectures.base import Network
from zoo.architectures.builder import batched
from zoo.architectures.entry import ModelInfo
from zoo.architectures.inputs import IMAGE, PIXELS, Input, read_feed_sides
from zoo.architectures.kinds import nested_networks
from zoo.artifacts.choices import Precision
from zoo.artifacts.measured import Comparison, Verification
from zoo.common import runtime
from zoo.export.network_inputs import Inputs, input_specs, sample_inputs
from zoo.export.precisions import PRECISIONS, Limit
from zoo.export.request import Signature
from zoo.export.resources import LARGEST_WHOLE
from zoo.images.photograph import STORED, photographs_of_one_size
from zoo.images.pixel_values import pixel_values
from zoo.tasks.answer import Outputs
from zoo.tasks.task import keep_outputs

TRIED_BATCHES = (1, 3)
"""Batch sizes tried where the batch size is open; with more sizes than these, 1 again."""

SIDES = ((1.0, 1.0), (0.5, 0.4), (1.1, 1.2), (0.6, 1.1), (1.1, 0.6))
"""Height and width tried where they are open, as multiples of the model's own: the model's, both
smaller, both larger, and one of each."""

PHOTOGRAPHS = f"{STORED}, preprocessed; mirrored and cropped where the batch is larger"
TEXTS = "random words in texts of several lengths, padded"
VERIFIED_IMAGES = f"{STORED} in 8 bits, and cropped on its side; mirrored where the batch is larger"

MOVES = 8
"""How often the inputs of a network that ranks what it finds are moved by rounding."""

MOVED = 4e-6
"""By how much, as a share of each number: what comes of it is a few times float32's own noise."""

MOST_EXCUSED = 0.05
"""Largest share of an output that may be right for moved inputs alone. Two places of 300 that are
as good as each other are 0.016 of what DEIMv2 gives with random weights."""

VIEWS = 2
"""How many sizes of images are tried on a file that takes any."""


OF_ANY_SIZE = Limit("max_rel", 1e-4)
"""In float32 of a network of somebody's own, and of depths and similarities, which may have any
size."""


@dataclass(frozen=True)
class Sample:
    """Inputs of a network and its outputs in JAX; `images` where the file takes those. `compared`
    makes of a file's outputs and these what low precisions are judged by. `moved` are outputs for
    inputs that are moved by rounding, of a network that ranks what it finds. `taken` are the
    records of the inputs."""

    inputs: Inputs
    outputs: Any
    images: NDArray[np.uint8] | None = None
    compared: Callable[[Outputs, Outputs], tuple[Outputs, Outputs]] = keep_outputs
    moved: tuple[Any, ...] = ()
    taken: tuple[Input, ...] = ()

    @property
    def fed(self) -> Inputs:
        """Inputs that a file gets."""
        return self.inputs if self.images is None else {IMAGE.name: self.images}

    @property
    def sides(self) -> dict[str, int]:
        """Batch size and named sides of what a file gets."""
        return read_feed_sides(self.taken, self.fed) or {
            "batch": len(next(iter(self.fed.values())))
        }


def within_rounding(got: Outputs, wanted: Outputs, moved: Sequence[Outputs]) -> Outputs:
    """Choose what is nearest to each number of a file, of all that lies between what JAX has for
    the inputs and for moved ones. Rows that are as good as each other change places there."""
    return {name: _nearest(got[name], [e[name] for e in (wanted, *moved)]) for name in wanted}


def _nearest(got: ArrayLike, found: Sequence[ArrayLike]) -> NDArray[Any]:
    candidates, given = np.stack([np.asarray(each) for each in found]), np.asarray(got)
    inside = np.clip(given, candidates.min(axis=0), candidates.max(axis=0))
    return np.where(np.isnan(given), candidates[0], inside)  # what is no number is no answer


def reference(
    entry: ModelInfo, model: Network, values: Mapping[str, ArrayLike], signature: Signature
) -> list[Sample]:
    """Samples of a model for photographs and texts in JAX: all of `runs`."""
    return [run() for run in runs(entry, model, values, signature)]


def runs(
    entry: ModelInfo, model: Network, values: Mapping[str, ArrayLike], signature: Signature
) -> list[Callable[[], Sample]]:
    """Runs that are made in JAX, in that order and by one thread.

    **Arguments:** the registry's entry; the abstract model and the values of its leaves; and what
    the files take and give. A model larger than `LARGEST_WHOLE` runs block by block, and only one
    block's values are in memory.
    """
    run = partial(
        batched, layers=signature.layers, as_maps=signature.as_maps, outputs=signature.outputs
    )

    @cache
    def network() -> Callable[[Any], Any]:
        if 4 * sum(map(math.prod, leaf_shapes(model).values())) > LARGEST_WHOLE:  # in float32
            return partial(evaluate_streaming, run, model, values)
        return partial(eqx.filter_jit(run), bind(model, values))

    shapes = list(sample_shapes(entry, signature))

    @cache
    def drawn() -> Sequence[Inputs]:
        found = [sample_inputs(entry, *shape, signature.batch is None) for shape in shapes]
        return steered(entry, model, values, signature, found)

    def sample(step: int, batch: int, size: tuple[int, int]) -> Sample:
        inputs, images = drawn()[step], None
        if signature.input == "uint8":
            photos = photographs_of_one_size(batch, step)
            inputs = {PIXELS.name: pixel_values(photos, entry.preprocessing, size)}
            images = np.stack([*map(np.asarray, photos)])
        outputs = jax.block_until_ready(network()(*inputs.values()))
        compare = entry.config.task.compare
        near = moved_inputs(inputs) if compare is not keep_outputs else ()
        moved = tuple(network()(*each) for each in near)
        return Sample(inputs, outputs, images, compare, moved, entry.config.inputs)

    return [partial(sample, step, *shape) for step, shape in enumerate(shapes)]


def steered(
    entry: ModelInfo,
    model: Network,
    values: Mapping[str, ArrayLike],
    signature: Signature,
    inputs: Sequence[Inputs],
) -> Sequence[Inputs]:
    """Return inputs of a network that takes integers, some of them changed.

    Together they take each side of its branches and of its indices' bounds, as far as these can be
    found: a word before the first of the vocabulary, and one behind the last.
    """
    if not any(array.dtype.kind in "iu" for array in inputs[0].values()):
        return inputs
    run = partial(
        batched, layers=signature.layers, as_maps=signature.as_maps, outputs=signature.outputs
    )
    traced = trace(run, input_specs(entry.config, signature), model)
    changed = steered_inputs(traced, values, [[*each.values()] for each in inputs])
    return [dict(zip(inputs[0], arrays, strict=True)) for arrays in changed]


def untaken_sides(
    export: converter.Export, samples: Sequence[Sample], values: Mapping[str, ArrayLike]
) -> tuple[str, ...]:
    """Return a sentence for each branch and bound of an exported network that no sample took."""
    if not may_have_sides(export.graph):
        return ()
    inputs = [[*sample.inputs.values()] for sample in samples]
    return tuple(coverage_of(export.retrace(), values, inputs).untaken(portable_line))


def moved_inputs(inputs: Inputs) -> Iterator[list[NDArray[Any]]]:
    """Inputs that are moved by rounding, `MOVES` times."""
    rng = np.random.default_rng(0)
    for _ in range(MOVES):
        shares = (1 + MOVED * rng.standard_normal(array.shape) for array in inputs.values())
        pairs = zip(inputs.values(), shares, strict=True)
        yield [(array * share).astype(array.dtype) for array, share in pairs]


def sample_shapes(entry: ModelInfo, signature: Signature) -> Iterator[tuple[int, tuple[int, int]]]:
    """Batch size and (height, width) of every sample: what is open gets several values. Texts have
    no sides."""
    views = VIEWS if signature.input == "uint8" else 1
    batches = TRIED_BATCHES if signature.batch is None else (signature.batch,) * views
    if signature.size is not None or entry.config.pictures is None:
        return ((batch, signature.size or (0, 0)) for batch in batches)
    stride, (height, width) = entry.config.stride, entry.native
    sides = (
        (round(tall * height / stride) * stride, round(wide * width / stride) * stride)
        for tall, wide in SIDES
    )
    return zip(chain(batches, repeat(batches[0])), sides, strict=False)


def limit_for(precision: Precision, kind: str, config: Config) -> Limit:
    """Limit of a network's file in a precision, made from weights of a kind."""
    of_any_size = kind == "own" or bool(nested_networks(config))
    return OF_ANY_SIZE if precision == "fp32" and of_any_size else PRECISIONS[precision].limit


def runnable(file: Path, precision: Precision) -> Path | ir.Model:
    """Model that ONNX Runtime's CPU provider can run for a file, with the numbers that the file
    gives."""
    if not PRECISIONS[precision].on_cpu:
        return converter.emulate_bfloat16(ir.load(file))
    return file


def verify_file(
    file: Path,
    samples: Sequence[Sample],
    precision: Precision = "fp32",
    provider: str = runtime.CPU,
    limit: Limit | None = None,
    opened: Callable[[], runtime.Session] | None = None,
) -> Verification:
    """Run an ONNX file on the same photographs and texts and compare with float32 in JAX.

    The first of them is tried at every level of ONNX Runtime's optimiser, and at the highest once
    more at last: memory that a kernel reads and does not set is not the same twice.

    Of a file that takes images the `pixel_values` inside are compared as well, as in float32: one
    level of 8 bits is at least 0.004 there, in the outputs it may be nothing. `limit` replaces what
    is asked of that precision. What `opened` gives is the session of the highest level, asked for
    when those of lower levels are closed, which take as much memory.
    """
    takes_images = any(sample.images is not None for sample in samples)
    inside = _compared_inside(file, samples, provider) if takes_images else []
    asked, run = limit or PRECISIONS[precision].limit, runnable(file, precision)
    lower = [
        [*_compared(below, samples[:1], asked, level)]
        for level, below in runtime.lower_sessions(run, provider)
    ]
    live = opened() if opened else runtime.session(run, provider)
    first, *others = [[*_compared(live, [sample], asked)] for sample in samples]
    again = [*_compared(live, samples[:1], asked)]
    outputs = [_worst(tried, asked) for tried in zip(*lower, first, again, strict=True)]
    fed = VERIFIED_IMAGES if takes_images else words(samples[0])
    return judge(fed, asked, [*outputs, *chain.from_iterable(others)], inside, levels(run))


def _worst(tried: Sequence[Comparison], asked: Limit) -> Comparison:
    """The comparison with the largest error, and the largest share that any of them excuses."""
    worst, most = asked.worst(tried), max(each.excused for each in tried)
    return worst.model_copy(update={"excused": most}) if most else worst


def _compared_inside(file: Path, samples: Sequence[Sample], provider: str) -> list[Comparison]:
    """The part of a file that makes `pixel_values` of images."""
    model = ir.load(file)
    graph = ir.convenience.extract(model.graph, [IMAGE.name], [PIXELS.name])
    live = runtime.session(ir.Model(graph, ir_version=model.ir_version), provider)
    plain = [replace(sample, compared=keep_outputs) for sample in samples]
    return [*_compared(live, plain, PRECISIONS["fp32"].limit)]


def words(sample: Sample) -> str:
    """Words about what a network got."""
    kinds = {"picture": PHOTOGRAPHS, "text": TEXTS}
    return "; ".join(kinds[each.kind] for each in sample.taken)


def judge(
    input: str,
    limit: Limit,
    outputs: Sequence[Comparison],
    inside: Sequence[Comparison] = (),
    tried: tuple[Level, ...] = ("all",),
) -> Verification:
    """Whether all outputs are within a limit, and what is inside of a file within float32's."""
    return Verification(
        input=input,
        measure=limit.measure,
        limit=limit.value,
        passed=all(map(limit.holds, outputs))
        and all(each.excused <= MOST_EXCUSED for each in outputs)
        and all(map(PRECISIONS["fp32"].limit.holds, inside)),
        comparisons=(*inside, *outputs),
        levels=tried,
    )


def _compared(
    live: runtime.Session, samples: Sequence[Sample], asked: Limit, level: Level = "all"
) -> Iterator[Comparison]:
    names = [output.name for output in live.get_outputs()]
    for sample in samples:
        expected = sample.inputs if names == [PIXELS.name] else sample.outputs
        errors = _errors(live, sample, expected, asked)
        numbers = [bool(np.isfinite(leaf).all()) for leaf in jax.tree.leaves(expected)]
        for (output, (error, excused)), is_number in zip(errors.items(), numbers, strict=True):
            # NaN where JAX has NaN is equal, and shows nothing.
            known = error if is_number else NOT_COMPARED
            yield compared(sample.sides, output, known, level, excused)


def _errors(
    live: runtime.Session, sample: Sample, expected: Any, asked: Limit
) -> Mapping[str, tuple[converter.Errors, float]]:
    """How far each output is from what is expected, and what share of it is excused."""
    fed = [*sample.fed.values()]
    if sample.compared is keep_outputs:
        found = converter.check(live, lambda *_: expected, fed)
        return {name: (error, 0.0) for name, error in found.items()}
    arrays = {name: np.asarray(value) for name, value in expected.items()}
    outputs = converter.run(live, fed)
    if asked.measure == "cosine":
        got, wanted = sample.compared(outputs, arrays)
        return {name: (converter.compare(got[name], wanted[name]), 0.0) for name in wanted}
    near = within_rounding(outputs, arrays, sample.moved)
    return {
        name: (converter.compare(outputs[name], near[name]), excused(near[name], array, asked))
        for name, array in arrays.items()
    }


def excused(near: NDArray[Any], wanted: NDArray[Any], asked: Limit) -> float:
    """Share of the numbers that are right for moved inputs alone."""
    size = abs(wanted).max(initial=0) if asked.measure == "max_rel" else 1
    return float(np.mean(abs(near - wanted) > asked.value * size))


NOT_COMPARED = converter.Errors(math.nan, math.nan, math.nan)
"""What is known of an output that is not all numbers in JAX."""


def compared(
    sides: Mapping[str, int],
    output: str,
    error: converter.Errors,
    level: Level = "all",
    excused: float = 0,
) -> Comparison:
    """The record of one comparison, of what has these sides (`batch`, `height`, …)."""
    record = Comparison(output=output, **sides, **asdict(error), level=level)
    return record.model_copy(update={"excused": excused}) if excused else record
