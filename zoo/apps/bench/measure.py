"""Measure the speed and memory of files in the same rounds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from weights.parameters import parameter
from weights.progress import Progress
from zoo.apps.bench.bench_options import BenchOptions
from zoo.architectures.inputs import Feeds
from zoo.artifacts.read import near, stated_entry
from zoo.artifacts.schema import Manifest
from zoo.checkpoints.settings.library_configs import transformers_config, transformers_kind
from zoo.common import runtime
from zoo.common.errors import BadFile, BadRequest, MissingLibrary, first_line
from zoo.export.timing.footprint import Footprint, footprint
from zoo.export.timing.rounds import Task, interleave, resting_session, run_once, watch_others
from zoo.export.timing.timed_inputs import Spec, draw_inputs, settle_inputs
from zoo.export.timing.timed_products import Products, TimedProduct, timed_products
from zoo.registry.lookup import info

Key: TypeAlias = int | TimedProduct
"""Key of a timed task: the index of a file, or a product."""

EMPTY_CALL = TimedProduct("MatMul", (1, 1), (1, 1), True)
"""The smallest product. Its time is the overhead of a call, which every other time contains."""


@dataclass(frozen=True)
class Floor:
    """Seconds of the fastest run of each product, less those of an empty call."""

    products: Products
    seconds: Mapping[TimedProduct, float]

    @property
    def total(self) -> float:
        """Seconds of all products of the network."""
        counts = self.products.counts
        return sum(count * self.seconds[product] for product, count in counts.items())


def product_tasks(products: Products, threads: int) -> dict[Key, Task]:
    """Return a task for each product, and one for an empty call."""
    return {product: _product_task(product, threads) for product in (EMPTY_CALL, *products.counts)}


def compute_floor(products: Products, times: Mapping[Key, Sequence[float]]) -> Floor:
    """Return the floor of a network, from the times of its `product_tasks`."""
    call = min(times[EMPTY_CALL])
    return Floor(products, {each: max(min(times[each]) - call, 0.0) for each in products.counts})


def _product_task(product: TimedProduct, threads: int) -> Task:
    """Return a run of a model with one node. A weight is a constant, which ONNX Runtime packs."""
    rng = np.random.default_rng(0)
    shapes = {"left": product.left, "right": product.right}
    feeds = {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    inputs = [ir.val(name, ir.DataType.FLOAT, shape) for name, shape in shapes.items()]
    node = ir.node(product.op, inputs, dict(product.attributes))
    (output,) = node.outputs
    output.name, output.dtype = "output", ir.DataType.FLOAT
    weights = [inputs.pop()] if product.constant else []
    for weight in weights:
        weight.const_value = ir.tensor(feeds.pop("right"), name="right")
    graph = ir.Graph(
        inputs, [output], nodes=[node], initializers=weights, opset_imports={"": 18}, name="product"
    )
    data = ir.to_proto(ir.Model(graph, ir_version=8)).SerializeToString()
    return run_once(resting_session(data, threads), feeds)


def torch_task(model: str | None, specs: Sequence[Spec], threads: int) -> Task:
    """Return a run of transformers' model with random weights: float32, eager, on the CPU.

    **Raises** `MissingLibrary` without PyTorch or transformers, and `BadRequest` if the model is
    not known or transformers does not have it.
    """
    try:
        import torch
        from transformers import AutoConfig, AutoModel
    except ModuleNotFoundError as error:
        raise MissingLibrary(
            f"{parameter('against')} torch needs PyTorch and transformers: run `pip install torch "
            "transformers`."
        ) from error
    if not model or [spec.dtype for spec in specs] != ["float32"]:
        raise BadRequest(
            f"{parameter('against')} torch needs to know the architecture: let the first file be "
            "one that takes float32 pixel_values and has its manifest beside it or in the folder "
            "above."
        )
    config, names = info(model).config, info(model).class_names
    settings = transformers_config(config, names, key_bias=False)
    kind = settings.pop("model_type")
    torch.set_num_threads(threads)
    network = AutoModel.from_config(AutoConfig.for_model(kind, **settings)).train(False)
    (array,) = draw_inputs(specs).values()
    images = torch.from_numpy(array)
    options = (
        {"interpolate_pos_encoding": True}
        if transformers_kind(config).interpolates_on_request
        else {}
    )

    def task() -> object:
        with torch.inference_mode():
            return network(images, **options)

    return task


@dataclass(frozen=True)
class Contender:
    """A measured file, or transformers' model, which has no footprint. `times` are in seconds."""

    name: str
    inputs: Sequence[Spec]
    times: Sequence[float]
    footprint: Footprint | None

    def percentile(self, share: float) -> float:
        """Return the seconds that this share (in percent) of the runs does not exceed."""
        return float(np.percentile(self.times, share))

    @property
    def fastest(self) -> float:
        """Seconds of the fastest run."""
        return min(self.times)


@dataclass(frozen=True)
class Bench:
    """Result for all files in their order, transformers' model last, and the first file's floor.

    `others` is the number of cores that other programs kept busy, or None if it is unknown.
    """

    options: BenchOptions
    contenders: Sequence[Contender]
    floor: Floor
    others: float | None = None


def measure_files(files: Sequence[Path], options: BenchOptions, progress: Progress) -> Bench:
    """Measure files in the same rounds.

    **Raises** a `ZooError` for a file that does not run or has inputs of unknown size.
    """
    sources = [_open(file, options) for file in files]
    names, first = [*map(str, files)], sources[0][0]
    if options.against is not None:
        progress.stage("building transformers' model")
        manifest = near(files[0])
        task = torch_task(manifest.model if manifest else None, first, options.threads)
        names.append("transformers, torch")
        sources.append((first, task))
    products = timed_products(ir.load(files[0]), first)
    timed: dict[Key, Task] = {index: task for index, (_, task) in enumerate(sources)}
    timed |= product_tasks(products, options.threads)
    footprints: list[Footprint | None] = [None] * len(sources)
    for index, file in enumerate(files):
        progress.stage(f"{file}: memory")
        footprints[index] = footprint(file, sources[index][0], options.threads)
    progress.stage(f"{options.rounds} rounds of {len(timed)} runs")
    others = watch_others()
    try:
        times = interleave(timed, options.rounds, options.clock)
    except runtime.ERRORS as error:
        raise BadFile(f"a file does not run: {first_line(error)}") from error
    busy_cores = others()
    contenders = [
        Contender(name, sources[index][0], times[index], footprints[index])
        for index, name in enumerate(names)
    ]
    return Bench(options, contenders, compute_floor(products, times), busy_cores)


def _sample(manifest: Manifest, batch: int, size: tuple[int, int]) -> Feeds | None:
    """Return the arrays of photographs for a network that takes more of a picture than
    `pixel_values`, which may not be any numbers; None for others."""
    pictures = stated_entry(manifest).config.pictures
    if pictures is None or pictures.is_plain:
        return None
    return pictures.sample(batch, manifest.preprocessing.settings, manifest.size or size)


def _open(file: Path, options: BenchOptions) -> tuple[list[Spec], Task]:
    """Return the inputs of a file, and a task that runs it, after one successful run."""
    if not file.is_file():
        raise BadFile(f"{file} is no file: name .onnx files.")
    manifest = near(file)
    usual = manifest.preprocessing.size if manifest else (224, 224)
    sample = _sample(manifest, options.batch or 1, options.size or usual) if manifest else None
    try:
        live = resting_session(file, options.threads)
        declared = live.get_inputs()
        specs = settle_inputs(file, declared, options.batch, options.size, usual, sample)
        task = run_once(live, draw_inputs(specs))
        task()
    except runtime.ERRORS as error:
        raise BadFile(
            f"{file} does not run in ONNX Runtime on the CPU ({first_line(error)}): name "
            f"another file, or another {parameter('size')} or {parameter('batch')}."
        ) from error
    return specs, task
