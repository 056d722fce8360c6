"""Verify an exported file: compare it in ONNX Runtime with JAX, on photographs and texts of several
sizes."""

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
from zoo.export.resources import MAX_UNSPLIT_BYTES
from zoo.images.photograph import STORED, photographs_of_one_size
from zoo.images.pixel_values import pixel_values
from zoo.tasks.answer import Outputs
from zoo.tasks.task import keep_outputs

SAMPLE_BATCHES = (1, 3)
"""Batch sizes of the samples if the batch size is open. If there are more image sizes than batch
sizes, the others have the first batch size."""

SIZE_FACTORS = ((1.0, 1.0), (0.5, 0.4), (1.1, 1.2), (0.6, 1.1), (1.1, 0.6))
"""Factors of the model's height and width for the sizes of the samples if the size is open: the
model's size, smaller, larger, and two with one side larger and one smaller."""

PHOTOGRAPHS = f"{STORED}, preprocessed; mirrored and cropped where the batch is larger"
TEXTS = "random words in texts of several lengths, padded"
VERIFIED_IMAGES = f"{STORED} in 8 bits, and cropped on its side; mirrored where the batch is larger"

MOVED_SAMPLES = 8
"""Number of times that the inputs are moved by rounding, for a network that ranks its results."""

MOVED_SHARE = 4e-6
"""Standard deviation of the movement, relative to each number. Its effect is a few times the
rounding error of float32."""

MAX_EXCUSED_SHARE = 0.05
"""Largest share of an output that may agree with JAX at moved inputs alone. Two of 300 queries with
equal scores are a share of 0.016 in the outputs of DEIMv2 with random weights."""

IMAGE_SIZES = 2
"""Number of image sizes for a file that takes images of any size."""


RELATIVE_LIMIT = Limit("max_rel", 1e-4)
"""Limit in float32 for a user's network, and for depths and similarities, whose outputs may have
any magnitude."""


@dataclass(frozen=True)
class Sample:
    """Inputs of a network and its outputs in JAX.

    Arguments:
        inputs: arrays by name, as the network takes them.
        outputs: the outputs in JAX.
        images: images of 8 bits, for a file that preprocesses them itself; otherwise None.
        compared: function from a file's outputs and these to the values that are compared in low
            precisions.
        moved: outputs for inputs that are moved by rounding, for a network that ranks its results.
        taken: descriptions of the inputs.
    """

    inputs: Inputs
    outputs: Any
    images: NDArray[np.uint8] | None = None
    compared: Callable[[Outputs, Outputs], tuple[Outputs, Outputs]] = keep_outputs
    moved: tuple[Any, ...] = ()
    taken: tuple[Input, ...] = ()

    @property
    def fed(self) -> Inputs:
        """Inputs of the file."""
        return self.inputs if self.images is None else {IMAGE.name: self.images}

    @property
    def sides(self) -> dict[str, int]:
        """Batch size and named sizes of the inputs."""
        return read_feed_sides(self.taken, self.fed) or {
            "batch": len(next(iter(self.fed.values())))
        }


def nearest_within_rounding(
    outputs: Outputs, expected: Outputs, moved: Sequence[Outputs]
) -> Outputs:
    """Return the number nearest to each number of a file, within the range of the outputs of JAX
    for the inputs and for moved inputs. Results with equal scores exchange their positions in this
    range."""
    return {
        name: _nearest(outputs[name], [arrays[name] for arrays in (expected, *moved)])
        for name in expected
    }


def _nearest(values: ArrayLike, arrays: Sequence[ArrayLike]) -> NDArray[Any]:
    """Return the nearest numbers in the range of several arrays. NaN is replaced by the first
    array."""
    candidates, numbers = np.stack([np.asarray(array) for array in arrays]), np.asarray(values)
    clipped = np.clip(numbers, candidates.min(axis=0), candidates.max(axis=0))
    return np.where(np.isnan(numbers), candidates[0], clipped)  # NaN then counts as an error


def make_samples(
    entry: ModelInfo, model: Network, values: Mapping[str, ArrayLike], signature: Signature
) -> list[Sample]:
    """Return all samples of a model in JAX, for photographs and texts."""
    return [run() for run in sample_tasks(entry, model, values, signature)]


def sample_tasks(
    entry: ModelInfo, model: Network, values: Mapping[str, ArrayLike], signature: Signature
) -> list[Callable[[], Sample]]:
    """Return a function for each sample, which computes it in JAX. They are called in this order
    and by one thread.

    **Arguments:** the entry of the registry; the abstract model and the values of its leaves; and
    the signature of the files. A model larger than `MAX_UNSPLIT_BYTES` runs block by block, with
    only one block's values in memory.
    """
    run = partial(
        batched, layers=signature.layers, as_maps=signature.as_maps, outputs=signature.outputs
    )

    @cache
    def compile_network() -> Callable[[Any], Any]:
        if 4 * sum(map(math.prod, leaf_shapes(model).values())) > MAX_UNSPLIT_BYTES:  # in float32
            return partial(evaluate_streaming, run, model, values)
        return partial(eqx.filter_jit(run), bind(model, values))

    shapes = list(sample_shapes(entry, signature))

    @cache
    def draw_samples() -> Sequence[Inputs]:
        samples = [sample_inputs(entry, *shape, signature.batch is None) for shape in shapes]
        return steer_samples(entry, model, values, signature, samples)

    def make_sample(step: int, batch: int, size: tuple[int, int]) -> Sample:
        inputs, images = draw_samples()[step], None
        if signature.input == "uint8":
            photos = photographs_of_one_size(batch, step)
            inputs = {PIXELS.name: pixel_values(photos, entry.preprocessing, size)}
            images = np.stack([*map(np.asarray, photos)])
        outputs = jax.block_until_ready(compile_network()(*inputs.values()))
        compare = entry.config.task.compare
        moved_samples = move_inputs(inputs) if compare is not keep_outputs else ()
        moved = tuple(compile_network()(*arrays) for arrays in moved_samples)
        return Sample(inputs, outputs, images, compare, moved, entry.config.inputs)

    return [partial(make_sample, step, *shape) for step, shape in enumerate(shapes)]


def steer_samples(
    entry: ModelInfo,
    model: Network,
    values: Mapping[str, ArrayLike],
    signature: Signature,
    inputs: Sequence[Inputs],
) -> Sequence[Inputs]:
    """Return samples in which some integers are changed, for a network that takes integers.

    Together they take each side of the network's branches and of the bounds of its indices, as far
    as such inputs are found. Examples are a token below zero and one beyond the vocabulary.
    """
    if not any(array.dtype.kind in "iu" for array in inputs[0].values()):
        return inputs
    run = partial(
        batched, layers=signature.layers, as_maps=signature.as_maps, outputs=signature.outputs
    )
    traced = trace(run, input_specs(entry.config, signature), model)
    changed = steered_inputs(traced, values, [[*sample.values()] for sample in inputs])
    return [dict(zip(inputs[0], arrays, strict=True)) for arrays in changed]


def describe_untaken_sides(
    export: converter.Export, samples: Sequence[Sample], values: Mapping[str, ArrayLike]
) -> tuple[str, ...]:
    """Return a sentence for each branch and bound of an exported network that no sample took."""
    if not may_have_sides(export.graph):
        return ()
    inputs = [[*sample.inputs.values()] for sample in samples]
    return tuple(coverage_of(export.retrace(), values, inputs).untaken(portable_line))


def move_inputs(inputs: Inputs) -> Iterator[list[NDArray[Any]]]:
    """Yield inputs that are moved by rounding, `MOVED_SAMPLES` times."""
    rng = np.random.default_rng(0)
    for _ in range(MOVED_SAMPLES):
        shares = (1 + MOVED_SHARE * rng.standard_normal(array.shape) for array in inputs.values())
        pairs = zip(inputs.values(), shares, strict=True)
        yield [(array * share).astype(array.dtype) for array, share in pairs]


def sample_shapes(entry: ModelInfo, signature: Signature) -> Iterator[tuple[int, tuple[int, int]]]:
    """Return the batch size and (height, width) of every sample. An open size gets several values.
    Samples of texts have no height and width."""
    sizes = IMAGE_SIZES if signature.input == "uint8" else 1
    batches = SAMPLE_BATCHES if signature.batch is None else (signature.batch,) * sizes
    if signature.size is not None or entry.config.pictures is None:
        return ((batch, signature.size or (0, 0)) for batch in batches)
    stride, (height, width) = entry.config.stride, entry.native
    sides = (
        (
            round(height_factor * height / stride) * stride,
            round(width_factor * width / stride) * stride,
        )
        for height_factor, width_factor in SIZE_FACTORS
    )
    return zip(chain(batches, repeat(batches[0])), sides, strict=False)


def choose_limit(precision: Precision, kind: str, config: Config) -> Limit:
    """Return the limit of a network's file in a precision. `kind` is the kind of its weights."""
    is_relative = kind == "own" or bool(nested_networks(config))
    return RELATIVE_LIMIT if precision == "fp32" and is_relative else PRECISIONS[precision].limit


def to_runnable(file: Path, precision: Precision) -> Path | ir.Model:
    """Return a model that ONNX Runtime's CPU provider can run in place of a file, with the same
    results."""
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
    """Compare an ONNX file in ONNX Runtime with float32 in JAX, on the samples.

    The first sample runs at every optimization level, and at the end once more at the highest
    level, because uninitialized memory that a kernel reads differs between runs.

    In a file that takes images the `pixel_values` are compared too, with the limit of float32. An
    error of one level of 8 bits is at least 0.004 there, but may be small in the outputs.

    Arguments:
        file: the ONNX file.
        samples: inputs with the outputs in JAX.
        precision: precision of the file.
        provider: execution provider of ONNX Runtime.
        limit: replaces the limit of the precision.
        opened: function that returns the session of the highest level. It is called when the
            sessions of lower levels, which need as much memory, are closed.
    """
    takes_images = any(sample.images is not None for sample in samples)
    inner_comparisons = _compare_pixel_values(file, samples, provider) if takes_images else []
    effective_limit, model = limit or PRECISIONS[precision].limit, to_runnable(file, precision)
    lower = [
        [*_compare_samples(lower_session, samples[:1], effective_limit, level)]
        for level, lower_session in runtime.lower_sessions(model, provider)
    ]
    session = opened() if opened else runtime.session(model, provider)
    first, *other_comparisons = [
        [*_compare_samples(session, [sample], effective_limit)] for sample in samples
    ]
    again = [*_compare_samples(session, samples[:1], effective_limit)]
    outputs = [
        _worst_comparison(tried, effective_limit)
        for tried in zip(*lower, first, again, strict=True)
    ]
    description = VERIFIED_IMAGES if takes_images else describe_inputs(samples[0])
    return judge_comparisons(
        description,
        effective_limit,
        [*outputs, *chain.from_iterable(other_comparisons)],
        inner_comparisons,
        levels(model),
    )


def _worst_comparison(comparisons: Sequence[Comparison], limit: Limit) -> Comparison:
    """Return the comparison with the largest error, with the largest excused share of all."""
    worst, largest_share = (
        limit.worst(comparisons),
        max(comparison.excused for comparison in comparisons),
    )
    return worst.model_copy(update={"excused": largest_share}) if largest_share else worst


def _compare_pixel_values(file: Path, samples: Sequence[Sample], provider: str) -> list[Comparison]:
    """Return the comparisons of the part of a file that makes `pixel_values` of images."""
    model = ir.load(file)
    graph = ir.convenience.extract(model.graph, [IMAGE.name], [PIXELS.name])
    session = runtime.session(ir.Model(graph, ir_version=model.ir_version), provider)
    plain_samples = [replace(sample, compared=keep_outputs) for sample in samples]
    return [*_compare_samples(session, plain_samples, PRECISIONS["fp32"].limit)]


def describe_inputs(sample: Sample) -> str:
    """Return the inputs of a sample in words."""
    kinds = {"picture": PHOTOGRAPHS, "text": TEXTS}
    return "; ".join(kinds[network_input.kind] for network_input in sample.taken)


def judge_comparisons(
    input: str,
    limit: Limit,
    outputs: Sequence[Comparison],
    inside: Sequence[Comparison] = (),
    tried: tuple[Level, ...] = ("all",),
) -> Verification:
    """Return the verification: passed if all outputs are within the limit, no excused share is too
    large, and `inside`, the comparisons of inner values, are within the limit of float32."""
    return Verification(
        input=input,
        measure=limit.measure,
        limit=limit.value,
        passed=all(map(limit.holds, outputs))
        and all(comparison.excused <= MAX_EXCUSED_SHARE for comparison in outputs)
        and all(map(PRECISIONS["fp32"].limit.holds, inside)),
        comparisons=(*inside, *outputs),
        levels=tried,
    )


def _compare_samples(
    session: runtime.Session, samples: Sequence[Sample], limit: Limit, level: Level = "all"
) -> Iterator[Comparison]:
    """Yield the comparison of each output for each sample."""
    names = [output.name for output in session.get_outputs()]
    for sample in samples:
        expected = sample.inputs if names == [PIXELS.name] else sample.outputs
        errors = _compare_sample(session, sample, expected, limit)
        numbers = [bool(np.isfinite(leaf).all()) for leaf in jax.tree.leaves(expected)]
        for (output, (error, excused)), is_number in zip(errors.items(), numbers, strict=True):
            # An output in which JAX has NaN would compare as equal, but it proves nothing.
            usable_error = error if is_number else NOT_COMPARED
            yield to_comparison(sample.sides, output, usable_error, level, excused)


def _compare_sample(
    session: runtime.Session, sample: Sample, expected: Any, limit: Limit
) -> Mapping[str, tuple[converter.Errors, float]]:
    """Return the error of each output for a sample, and the share of it that is excused."""
    feeds = [*sample.fed.values()]
    if sample.compared is keep_outputs:
        errors = converter.check(session, lambda *_: expected, feeds)
        return {name: (error, 0.0) for name, error in errors.items()}
    expected_arrays = {name: np.asarray(value) for name, value in expected.items()}
    outputs = converter.run(session, feeds)
    if limit.measure == "cosine":
        compared_outputs, compared_expected = sample.compared(outputs, expected_arrays)
        return {
            name: (converter.compare(compared_outputs[name], compared_expected[name]), 0.0)
            for name in compared_expected
        }
    nearest = nearest_within_rounding(outputs, expected_arrays, sample.moved)
    return {
        name: (
            converter.compare(outputs[name], nearest[name]),
            excused_share(nearest[name], array, limit),
        )
        for name, array in expected_arrays.items()
    }


def excused_share(nearest: NDArray[Any], expected: NDArray[Any], limit: Limit) -> float:
    """Return the share of the numbers that agree with JAX at moved inputs alone."""
    magnitude = abs(expected).max(initial=0) if limit.measure == "max_rel" else 1
    return float(np.mean(abs(nearest - expected) > limit.value * magnitude))


NOT_COMPARED = converter.Errors(math.nan, math.nan, math.nan)
"""Error of an output that is not finite in JAX."""


def to_comparison(
    sides: Mapping[str, int],
    output: str,
    error: converter.Errors,
    level: Level = "all",
    excused: float = 0,
) -> Comparison:
    """Return the record of the comparison of an output.

    - `sides`: the batch size and the named sizes of the inputs (`batch`, `height`, …).
    - `level`: the optimization level of ONNX Runtime.
    - `excused`: the share of numbers that are right only within the rounding of their ranking.
    """
    record = Comparison(output=output, **sides, **asdict(error), level=level)
    return record.model_copy(update={"excused": excused}) if excused else record
