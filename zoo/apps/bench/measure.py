"""Measure the speed and memory of files in common rounds."""

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
from zoo.artifacts.read import entry_of_manifest, read_nearby_manifest
from zoo.artifacts.schema import Manifest
from zoo.checkpoints.settings.library_configs import find_transformers_class, transformers_config
from zoo.common import runtime
from zoo.common.errors import BadFile, BadRequest, MissingLibrary, first_line
from zoo.export.timing.footprint import Footprint, measure_footprint
from zoo.export.timing.rounds import (
    Task,
    as_task,
    measure_interleaved,
    open_idle_session,
    watch_other_programs,
)
from zoo.export.timing.timed_inputs import TimedInput, draw_inputs, resolve_timed_inputs
from zoo.export.timing.timed_products import Products, TimedProduct, timed_products
from zoo.registry.lookup import info

Key: TypeAlias = int | TimedProduct
"""The key of a timed task: the index of a file, or a matrix product."""

EMPTY_CALL = TimedProduct("MatMul", (1, 1), (1, 1), True)
"""The smallest matrix product.

Its time is the overhead of a call, which every other time contains.
"""


@dataclass(frozen=True)
class ProductTimes:
    """The times of a network's matrix products alone, which a file can hardly undercut.

    `seconds` is the fastest time of each product, without the overhead of a call.
    """

    products: Products
    seconds: Mapping[TimedProduct, float]

    @property
    def total(self) -> float:
        """The time in seconds of all products of the network together."""
        counts = self.products.counts
        return sum(count * self.seconds[product] for product, count in counts.items())


def product_tasks(products: Products, threads: int) -> dict[Key, Task]:
    """Return a task for each matrix product, which runs it alone, and one for `EMPTY_CALL`.

    The keys are the products.
    """
    return {product: _product_task(product, threads) for product in (EMPTY_CALL, *products.counts)}


def compute_product_times(products: Products, times: Mapping[Key, Sequence[float]]) -> ProductTimes:
    """Return the fastest time of each product, without the overhead of a call.

    `times` are the measured times in seconds of the tasks of `product_tasks`.
    """
    call = min(times[EMPTY_CALL])
    return ProductTimes(
        products, {product: max(min(times[product]) - call, 0.0) for product in products.counts}
    )


def _product_task(product: TimedProduct, threads: int) -> Task:
    """Return a task that runs one matrix product in ONNX Runtime, on random numbers.

    A weight is a constant, as in a network, so that ONNX Runtime packs it in advance.
    """
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
    return as_task(open_idle_session(data, threads), feeds)


def torch_task(model: str | None, specs: Sequence[TimedInput], threads: int) -> Task:
    """Return a task that runs transformers' implementation of a model, in float32 on the CPU.

    Its weights are random, and PyTorch runs it eagerly.

    **Arguments**

    - `model`: the name of the model in the zoo, or None if it is unknown.
    - `specs`: the inputs of the file that the model is compared with.
    - `threads`: the number of threads.

    **Raises** `MissingLibrary` without PyTorch or transformers, and `BadRequest` if the model is
    unknown or not in transformers, or if the file takes other inputs than `pixel_values`.
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
            f"{parameter('against')} torch needs the architecture of the first file: name a file "
            "that takes float32 pixel_values and has a manifest in its folder or in the folder "
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
        if find_transformers_class(config).interpolates_on_request
        else {}
    )

    def task() -> object:
        """Run the network once on the images and return its outputs."""
        with torch.inference_mode():
            return network(images, **options)

    return task


@dataclass(frozen=True)
class MeasuredModel:
    """A measured file, or the model of transformers in PyTorch.

    - `name`: the path of the file, or the name of the library.
    - `inputs`: the inputs that it was run on.
    - `times`: the time of each run in seconds.
    - `footprint`: the loading time and memory, or None for the model of transformers.
    """

    name: str
    inputs: Sequence[TimedInput]
    times: Sequence[float]
    footprint: Footprint | None

    def percentile(self, share: float) -> float:
        """Return the time in seconds that `share` percent of the runs do not exceed.

        `share` is from 0 to 100.
        """
        return float(np.percentile(self.times, share))

    @property
    def fastest(self) -> float:
        """The time of the fastest run in seconds."""
        return min(self.times)


@dataclass(frozen=True)
class Bench:
    """The result of a measurement.

    - `options`: the options of the measurement.
    - `models`: the measured files in their order, and the model of transformers if requested.
    - `product_times`: the times of the first file's matrix products alone.
    - `busy_cores`: the number of cores that other programs kept busy, or None if it is unknown.
    """

    options: BenchOptions
    models: Sequence[MeasuredModel]
    product_times: ProductTimes
    busy_cores: float | None = None


def measure_files(files: Sequence[Path], options: BenchOptions, progress: Progress) -> Bench:
    """Measure the speed and memory of ONNX files, and the matrix products of the first file.

    In each round every file runs once, so that changes in the load of the machine affect all.

    **Raises** a `ZooError` for a file that does not run or has inputs of unknown size.
    """
    sources = [_open_file(file, options) for file in files]
    names, first = [*map(str, files)], sources[0][0]
    if options.against is not None:
        progress.stage("building transformers' model")
        manifest = read_nearby_manifest(files[0])
        task = torch_task(manifest.model if manifest else None, first, options.threads)
        names.append("transformers, torch")
        sources.append((first, task))
    products = timed_products(ir.load(files[0]), first)
    timed: dict[Key, Task] = {index: task for index, (_, task) in enumerate(sources)}
    timed |= product_tasks(products, options.threads)
    footprints: list[Footprint | None] = [None] * len(sources)
    for index, file in enumerate(files):
        progress.stage(f"{file}: memory")
        footprints[index] = measure_footprint(file, sources[index][0], options.threads)
    progress.stage(f"{options.rounds} rounds of {len(timed)} runs")
    stop_watching = watch_other_programs()
    try:
        times = measure_interleaved(timed, options.rounds, options.clock)
    except runtime.ERRORS as error:
        raise BadFile(f"a file does not run: {first_line(error)}") from error
    busy_cores = stop_watching()
    models = [
        MeasuredModel(name, sources[index][0], times[index], footprints[index])
        for index, name in enumerate(names)
    ]
    return Bench(options, models, compute_product_times(products, times), busy_cores)


def _sample_feeds(manifest: Manifest, batch: int, size: tuple[int, int]) -> Feeds | None:
    """Return input arrays of photographs for a network that takes other arrays than `pixel_values`.

    Such arrays cannot be random numbers. Return None for other networks. `size` is used if the
    manifest leaves the (height, width) open.
    """
    pictures = entry_of_manifest(manifest).config.pictures
    if pictures is None or pictures.is_plain:
        return None
    return pictures.sample(batch, manifest.preprocessing.settings, manifest.size or size)


def _open_file(file: Path, options: BenchOptions) -> tuple[list[TimedInput], Task]:
    """Return the inputs of a file, and a task that runs it. The task has run once.

    **Raises** `BadFile` if there is no such file or it does not run.
    """
    if not file.is_file():
        raise BadFile(f"{file} is no file: name .onnx files.")
    manifest = read_nearby_manifest(file)
    default_size = manifest.preprocessing.size if manifest else (224, 224)
    sample = (
        _sample_feeds(manifest, options.batch or 1, options.size or default_size)
        if manifest
        else None
    )
    try:
        opened_session = open_idle_session(file, options.threads)
        declared = opened_session.get_inputs()
        specs = resolve_timed_inputs(
            file, declared, options.batch, options.size, default_size, sample
        )
        task = as_task(opened_session, draw_inputs(specs))
        task()
    except runtime.ERRORS as error:
        raise BadFile(
            f"{file} does not run in ONNX Runtime on the CPU ({first_line(error)}): name "
            f"another file, or another {parameter('size')} or {parameter('batch')}."
        ) from error
    return specs, task
