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
from converter.verify.sessions import select_levels
from converter.verify.sides import may_have_sides
from converter.verify.steering import measure_coverage, steer_inputs
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
"""Description of the samples of pictures, for the manifest."""
TEXTS = "random words in texts of several lengths, padded"
VERIFIED_IMAGES = f"{STORED} in 8 bits, and cropped on its side; mirrored where the batch is larger"
"""Description of the samples of a file that takes images in uint8, for the manifest."""

PERTURBED_SAMPLES = 8
"""Number of copies of a sample whose inputs are changed by rounding errors, for a network that
ranks its results."""

PERTURBATION = 4e-6
"""Standard deviation of these changes, relative to each number. Their effect is a few times the
rounding error of float32."""

MAX_EXCUSED_SHARE = 0.05
"""Largest share of an output's numbers that may agree with JAX only if the inputs are changed by
rounding errors. Two of 300 queries with equal scores are a share of 0.016 in the outputs of DEIMv2
with random weights."""

IMAGE_SIZES = 2
"""Number of image sizes that are tried for a file that takes images of any size."""


RELATIVE_LIMIT = Limit("max_rel", 1e-4)
"""Limit in float32 for a user's network, and for depths and similarities, whose outputs may have
any magnitude."""


@dataclass(frozen=True)
class Sample:
    """Inputs of a network, and the outputs that the network computes for them in JAX.

    Arguments:
        inputs: the arrays that the network takes, by name.
        outputs: the outputs of the network in JAX, by name or in any other structure.
        images: images in uint8 for a file that preprocesses images itself; otherwise None.
        align_outputs: function of the file's outputs and the outputs in JAX. It returns the values
            to compare in low precision, where rounding may change the order of results. By default
            it returns both unchanged.
        perturbed_outputs: outputs in JAX for the same inputs with small rounding errors, for a
            network that ranks its results; otherwise empty.
        network_inputs: descriptions of the network's inputs.
    """

    inputs: Inputs
    outputs: Any
    images: NDArray[np.uint8] | None = None
    align_outputs: Callable[[Outputs, Outputs], tuple[Outputs, Outputs]] = keep_outputs
    perturbed_outputs: tuple[Any, ...] = ()
    network_inputs: tuple[Input, ...] = ()

    @property
    def feeds(self) -> Inputs:
        """Inputs of the ONNX file, by name: the images if the file preprocesses them, otherwise
        `inputs`."""
        return self.inputs if self.images is None else {IMAGE.name: self.images}

    @property
    def named_sizes(self) -> dict[str, int]:
        """Batch size and other named sizes of the inputs, such as `height` and `width`."""
        return read_feed_sides(self.network_inputs, self.feeds) or {
            "batch": len(next(iter(self.feeds.values())))
        }


def nearest_within_rounding(
    outputs: Outputs, expected: Outputs, perturbed: Sequence[Outputs]
) -> Outputs:
    """Return the expected values that are nearest to the outputs of a file, by output.

    `expected` are the outputs in JAX, and `perturbed` are outputs in JAX for inputs that differ by
    rounding errors. For each number the result is the file's number, limited to the range of these
    JAX outputs. A network that ranks results may exchange two results with equal scores, which
    stays within this range.
    """
    return {
        name: _clip_to_range(outputs[name], [arrays[name] for arrays in (expected, *perturbed)])
        for name in expected
    }


def _clip_to_range(values: ArrayLike, arrays: Sequence[ArrayLike]) -> NDArray[Any]:
    """Return `values`, limited elementwise to the range from the smallest to the largest of several
    arrays.

    NaN is replaced by the number of the first array, so that the comparison with `values` still
    finds the NaN.
    """
    candidates, numbers = np.stack([np.asarray(array) for array in arrays]), np.asarray(values)
    clipped = np.clip(numbers, candidates.min(axis=0), candidates.max(axis=0))
    return np.where(np.isnan(numbers), candidates[0], clipped)  # NaN then counts as an error


def make_samples(
    entry: ModelInfo, model: Network, values: Mapping[str, ArrayLike], signature: Signature
) -> list[Sample]:
    """Return all samples for the verification of a model's files, computed in JAX.

    **Arguments:** as for `plan_samples`.
    """
    return [run() for run in plan_samples(entry, model, values, signature)]


def plan_samples(
    entry: ModelInfo, model: Network, values: Mapping[str, ArrayLike], signature: Signature
) -> list[Callable[[], Sample]]:
    """Return a function for each sample of the verification. Each function computes its sample in
    JAX.

    The functions have to be called in this order and by one thread. A model whose float32
    parameters take more than `MAX_UNSPLIT_BYTES` runs block by block, with only one block's values
    in memory.

    **Arguments:**

    - `entry`: registry entry of the model.
    - `model`: the Equinox module with shapes in place of arrays.
    - `values`: the arrays of its leaves, by path.
    - `signature`: the inputs and outputs of the files to verify.
    """
    run = partial(
        batched, layers=signature.layers, as_maps=signature.as_maps, outputs=signature.outputs
    )

    @cache
    def compile_network() -> Callable[[Any], Any]:
        """Return the function that runs the network on a batch of inputs."""
        if 4 * sum(map(math.prod, leaf_shapes(model).values())) > MAX_UNSPLIT_BYTES:  # in float32
            return partial(evaluate_streaming, run, model, values)
        return partial(eqx.filter_jit(run), bind(model, values))

    shapes = list(sample_shapes(entry, signature))

    @cache
    def draw_samples() -> Sequence[Inputs]:
        """Return the inputs of all samples."""
        samples = [sample_inputs(entry, *shape, signature.batch is None) for shape in shapes]
        return steer_samples(entry, model, values, signature, samples)

    def make_sample(step: int, batch: int, size: tuple[int, int]) -> Sample:
        """Return a sample with its outputs in JAX. `step` is its index among the samples."""
        inputs, images = draw_samples()[step], None
        if signature.input == "uint8":
            photos = photographs_of_one_size(batch, step)
            inputs = {PIXELS.name: pixel_values(photos, entry.preprocessing, size)}
            images = np.stack([*map(np.asarray, photos)])
        outputs = jax.block_until_ready(compile_network()(*inputs.values()))
        align_outputs = entry.config.task.align_outputs
        perturbed_inputs = perturb_inputs(inputs) if align_outputs is not keep_outputs else ()
        perturbed_outputs = tuple(compile_network()(*arrays) for arrays in perturbed_inputs)
        return Sample(
            inputs, outputs, images, align_outputs, perturbed_outputs, entry.config.inputs
        )

    return [partial(make_sample, step, *shape) for step, shape in enumerate(shapes)]


def steer_samples(
    entry: ModelInfo,
    model: Network,
    values: Mapping[str, ArrayLike],
    signature: Signature,
    inputs: Sequence[Inputs],
) -> Sequence[Inputs]:
    """Return inputs in which some integers are changed, so that together they take more sides of
    the network's program.

    A side is a branch, a number of loop iterations, or an index below or above its bounds, such as
    a token below zero and one beyond the vocabulary. Sides for which no inputs are found stay
    unreached. The given arrays are not changed. Inputs without integers are returned unchanged. The
    other arguments are those of `plan_samples`.
    """
    if not any(array.dtype.kind in "iu" for array in inputs[0].values()):
        return inputs
    run = partial(
        batched, layers=signature.layers, as_maps=signature.as_maps, outputs=signature.outputs
    )
    traced = trace(run, input_specs(entry.config, signature), model)
    changed = steer_inputs(traced, values, [[*sample.values()] for sample in inputs])
    return [dict(zip(inputs[0], arrays, strict=True)) for arrays in changed]


def describe_untaken_sides(
    export: converter.Export, samples: Sequence[Sample], values: Mapping[str, ArrayLike]
) -> tuple[str, ...]:
    """Return a sentence for each side of the network's program that no sample takes.

    A side is a branch, a number of loop iterations (none, one, several), or an index below or above
    its bounds. The result is empty if the exported graph has no branches, loops or indices.

    **Arguments:**

    - `export`: the exported graph.
    - `samples`: the samples.
    - `values`: the network's arrays by path.
    """
    if not may_have_sides(export.graph):
        return ()
    inputs = [[*sample.inputs.values()] for sample in samples]
    return tuple(measure_coverage(export.retrace(), values, inputs).untaken(portable_line))


def perturb_inputs(inputs: Inputs) -> Iterator[list[NDArray[Any]]]:
    """Yield copies of the inputs in which each number is changed by a small random rounding error.

    There are `PERTURBED_SAMPLES` copies. Each is a list of arrays in the order of the inputs.
    """
    rng = np.random.default_rng(0)
    for _ in range(PERTURBED_SAMPLES):
        shares = (1 + PERTURBATION * rng.standard_normal(array.shape) for array in inputs.values())
        pairs = zip(inputs.values(), shares, strict=True)
        yield [(array * share).astype(array.dtype) for array, share in pairs]


def sample_shapes(entry: ModelInfo, signature: Signature) -> Iterator[tuple[int, tuple[int, int]]]:
    """Return the batch size and the (height, width) of every sample to verify a file with.

    With an open image size there is a sample for each of `SIZE_FACTORS`. Otherwise there is one for
    each of `SAMPLE_BATCHES` if the batch is open, `IMAGE_SIZES` samples for a file that takes
    images in uint8, and one for any other file. A network of texts alone has (0, 0) in place of
    height and width.
    """
    sizes = IMAGE_SIZES if signature.input == "uint8" else 1
    batches = SAMPLE_BATCHES if signature.batch is None else (signature.batch,) * sizes
    if signature.size is not None or entry.config.pictures is None:
        return ((batch, signature.size or (0, 0)) for batch in batches)
    stride, (height, width) = entry.config.stride, entry.native_size
    sides = (
        (
            round(height_factor * height / stride) * stride,
            round(width_factor * width / stride) * stride,
        )
        for height_factor, width_factor in SIZE_FACTORS
    )
    return zip(chain(batches, repeat(batches[0])), sides, strict=False)


def choose_limit(precision: Precision, kind: str, config: Config) -> Limit:
    """Return the limit of the difference from JAX for a file of this precision.

    `kind` is the kind of the weights in their provenance, such as `own` for a user's. In float32
    the limit is relative to the largest output for a user's own weights, and for networks that
    contain other networks, because their outputs may have any magnitude. Otherwise it is the limit
    of the precision.
    """
    is_relative = kind == "own" or bool(nested_networks(config))
    return RELATIVE_LIMIT if precision == "fp32" and is_relative else PRECISIONS[precision].limit


def to_runnable(file: Path, precision: Precision) -> Path | ir.Model:
    """Return a file or a model that ONNX Runtime's CPU provider can run, with the same results as
    `file`.

    It is the path itself, unless ONNX Runtime has no CPU kernels for the precision. Then it is a
    model in memory that emulates bfloat16.
    """
    if not PRECISIONS[precision].on_cpu:
        return converter.emulate_bfloat16(ir.load(file))
    return file


def verify_file(
    file: Path,
    samples: Sequence[Sample],
    precision: Precision = "fp32",
    provider: str = runtime.CPU,
    limit: Limit | None = None,
    open_session: Callable[[], runtime.Session] | None = None,
) -> Verification:
    """Compare the outputs of an ONNX file in ONNX Runtime with float32 in JAX, on all samples.

    The first sample runs at every optimization level, and at the end once more at the highest
    level, because uninitialized memory that a kernel reads differs between runs. Of these runs, the
    one with the largest error of an output is recorded. An output that is NaN or infinite in JAX
    fails.

    In a file that takes images the `pixel_values` are compared too, with the limit of float32. An
    error of one level of 8 bits is at least 0.004 there, but may be small in the outputs.

    Arguments:
        file: the ONNX file.
        samples: inputs with the outputs in JAX.
        precision: precision of the file.
        provider: execution provider of ONNX Runtime.
        limit: limit to apply in place of the precision's own.
        open_session: function that returns a session of the file at the highest level. It is
            called when the sessions of lower levels, which need as much memory, are closed. By
            default a session is opened.

    **Raises** one of `runtime.ERRORS` if the file does not load or run.
    """
    takes_images = any(sample.images is not None for sample in samples)
    inner_comparisons = _compare_pixel_values(file, samples, provider) if takes_images else []
    effective_limit, model = limit or PRECISIONS[precision].limit, to_runnable(file, precision)
    lower = [
        [*_compare_samples(lower_session, samples[:1], effective_limit, level)]
        for level, lower_session in runtime.sessions_below_highest_level(model, provider)
    ]
    session = open_session() if open_session else runtime.session(model, provider)
    first, *other_comparisons = [
        [*_compare_samples(session, [sample], effective_limit)] for sample in samples
    ]
    again = [*_compare_samples(session, samples[:1], effective_limit)]
    outputs = [
        _worst_comparison(comparisons, effective_limit)
        for comparisons in zip(*lower, first, again, strict=True)
    ]
    description = VERIFIED_IMAGES if takes_images else describe_inputs(samples[0])
    return judge_comparisons(
        description,
        effective_limit,
        [*outputs, *chain.from_iterable(other_comparisons)],
        inner_comparisons,
        select_levels(model),
    )


def _worst_comparison(comparisons: Sequence[Comparison], limit: Limit) -> Comparison:
    """Return the comparison with the largest error, with the largest `excused` share of all
    comparisons in place of its own."""
    worst, largest_share = (
        limit.find_worst(comparisons),
        max(comparison.excused for comparison in comparisons),
    )
    return worst.model_copy(update={"excused": largest_share}) if largest_share else worst


def _compare_pixel_values(file: Path, samples: Sequence[Sample], provider: str) -> list[Comparison]:
    """Compare the `pixel_values` inside a file that takes images with those of the samples.

    Only the first part of the file runs, which resizes and normalizes the images. Return the
    comparisons.
    """
    model = ir.load(file)
    graph = ir.convenience.extract(model.graph, [IMAGE.name], [PIXELS.name])
    session = runtime.session(ir.Model(graph, ir_version=model.ir_version), provider)
    plain_samples = [replace(sample, align_outputs=keep_outputs) for sample in samples]
    return [*_compare_samples(session, plain_samples, PRECISIONS["fp32"].limit)]


def describe_inputs(sample: Sample) -> str:
    """Return a description of the kinds of input that a sample has, for the manifest."""
    kinds = {"picture": PHOTOGRAPHS, "text": TEXTS}
    return "; ".join(kinds[network_input.kind] for network_input in sample.network_inputs)


def judge_comparisons(
    input: str,
    limit: Limit,
    outputs: Sequence[Comparison],
    inner_comparisons: Sequence[Comparison] = (),
    tried_levels: tuple[Level, ...] = ("all",),
) -> Verification:
    """Return the verification result for a list of comparisons.

    It passes if all `outputs` are within `limit`, none of their excused shares exceeds
    `MAX_EXCUSED_SHARE`, and all comparisons of `inner_comparisons` are within the limit of float32.

    **Arguments:**

    - `input`: description of the inputs, for the manifest.
    - `limit`: limit of the differences of the outputs.
    - `outputs`: comparisons of the outputs with JAX.
    - `inner_comparisons`: comparisons of values inside the file, such as `pixel_values`.
    - `tried_levels`: optimization levels of ONNX Runtime at which the file was run.
    """
    return Verification(
        input=input,
        measure=limit.measure,
        limit=limit.value,
        passed=all(map(limit.allows, outputs))
        and all(comparison.excused <= MAX_EXCUSED_SHARE for comparison in outputs)
        and all(map(PRECISIONS["fp32"].limit.allows, inner_comparisons)),
        comparisons=(*inner_comparisons, *outputs),
        levels=tried_levels,
    )


def _compare_samples(
    session: runtime.Session, samples: Sequence[Sample], limit: Limit, level: Level = "all"
) -> Iterator[Comparison]:
    """Run each sample in a session, and yield the comparison of each output with JAX.

    A session whose only output is `pixel_values` is compared with the inputs of the network
    instead. The errors of an output that is NaN or infinite in JAX are None, which no limit allows.
    `level` is the optimization level of the session.
    """
    names = [output.name for output in session.get_outputs()]
    for sample in samples:
        expected = sample.inputs if names == [PIXELS.name] else sample.outputs
        errors = _compare_sample(session, sample, expected, limit)
        numbers = [bool(np.isfinite(leaf).all()) for leaf in jax.tree.leaves(expected)]
        for (output, (error, excused)), is_number in zip(errors.items(), numbers, strict=True):
            # An output in which JAX has NaN would compare as equal, but it proves nothing.
            usable_error = error if is_number else NOT_COMPARED
            yield to_comparison(sample.named_sizes, output, usable_error, level, excused)


def _compare_sample(
    session: runtime.Session, sample: Sample, expected: Any, limit: Limit
) -> Mapping[str, tuple[converter.Errors, float]]:
    """Run one sample in a session, and return the error and the share of excused numbers by output.

    A number is excused if it agrees with JAX only for inputs changed by rounding errors. The share
    is 0 for networks that do not rank their results. `expected` are the values to compare with.
    """
    feeds = [*sample.feeds.values()]
    if sample.align_outputs is keep_outputs:
        errors = converter.check(session, lambda *_: expected, feeds)
        return {name: (error, 0.0) for name, error in errors.items()}
    expected_arrays = {name: np.asarray(value) for name, value in expected.items()}
    outputs = converter.run(session, feeds)
    if limit.measure == "cosine":
        aligned_outputs, aligned_expected = sample.align_outputs(outputs, expected_arrays)
        return {
            name: (converter.compare(aligned_outputs[name], aligned_expected[name]), 0.0)
            for name in aligned_expected
        }
    nearest = nearest_within_rounding(outputs, expected_arrays, sample.perturbed_outputs)
    return {
        name: (
            converter.compare(outputs[name], nearest[name]),
            excused_share(nearest[name], array, limit),
        )
        for name, array in expected_arrays.items()
    }


def excused_share(nearest: NDArray[Any], expected: NDArray[Any], limit: Limit) -> float:
    """Return the share of numbers, from 0 to 1, in which `nearest` differs from `expected` by more
    than the limit.

    `expected` are the outputs in JAX. `nearest` are outputs that JAX may have for inputs changed by
    rounding errors (see `nearest_within_rounding`).
    """
    magnitude = abs(expected).max(initial=0) if limit.measure == "max_rel" else 1
    return float(np.mean(abs(nearest - expected) > limit.value * magnitude))


NOT_COMPARED = converter.Errors(math.nan, math.nan, math.nan)
"""Error of an output that is NaN or infinite in JAX, so that it cannot be compared. It is within no
limit."""


def to_comparison(
    sides: Mapping[str, int],
    output: str,
    error: converter.Errors,
    level: Level = "all",
    excused: float = 0,
) -> Comparison:
    """Return the manifest's record of the comparison of one output.

    **Arguments:**

    - `sides`: the batch size and the named sizes of the inputs (`batch`, `height`, …).
    - `output`: name of the output.
    - `error`: its difference from JAX.
    - `level`: the optimization level of ONNX Runtime.
    - `excused`: the share of numbers that agree with JAX only for inputs changed by rounding
      errors.
    """
    record = Comparison(output=output, **sides, **asdict(error), level=level)
    return record.model_copy(update={"excused": excused}) if excused else record
