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
from zoo.artifacts.read import near
from zoo.checkpoints.settings.library_configs import transformers_config, transformers_kind
from zoo.common import runtime
from zoo.common.errors import BadFile, BadRequest, MissingLibrary, first_line
from zoo.export.timing.footprint import Footprint, footprint
from zoo.export.timing.inputs import Spec, draw_inputs, settle_inputs
from zoo.export.timing.rounds import Task, interleave, resting_session, run_once, watch_others
from zoo.export.timing.timed_products import Products, TimedProduct, timed_products
from zoo.registry.lookup import info

FLOOR_OPSET = 18
IR_VERSION = 8

Key: TypeAlias = int | TimedProduct
"""What is timed: a file, by its number, or a product."""

CALL = TimedProduct("MatMul", (1, 1), (1, 1), True)
"""The smallest product: an empty call, whose time that of every other contains as well."""


@dataclass(frozen=True)
class Floor:
    """Seconds of the fastest run of each product, less an empty call's, and of all together."""

    products: Products
    seconds: Mapping[TimedProduct, float]

    @property
    def total(self) -> float:
        """Seconds of as many of each as the network has."""
        return sum(count * self.seconds[each] for each, count in self.products.counts.items())


def tasks(products: Products, threads: int) -> dict[Key, Task]:
    """One run of each product, and an empty call."""
    return {product: _task(product, threads) for product in (CALL, *products.counts)}


def floor(products: Products, times: Mapping[Key, Sequence[float]]) -> Floor:
    """Floor from the times of `tasks`."""
    call = min(times[CALL])
    return Floor(products, {each: max(min(times[each]) - call, 0.0) for each in products.counts})


def _task(product: TimedProduct, threads: int) -> Task:
    """A run of a model with this one node. A weight is a constant, as ONNX Runtime packs those."""
    rng = np.random.default_rng(0)
    sides = {"left": product.left, "right": product.right}
    fed = {name: rng.standard_normal(shape, np.float32) for name, shape in sides.items()}
    left, right = (ir.val(name, ir.DataType.FLOAT, shape) for name, shape in sides.items())
    if product.constant:
        right.const_value = ir.tensor(fed.pop("right"), name="right")
    node = ir.node(product.op, [left, right], dict(product.attributes))
    (output,) = node.outputs
    output.name, output.dtype = "output", ir.DataType.FLOAT
    graph = ir.Graph(
        inputs=[left] if product.constant else [left, right],
        outputs=[output],
        nodes=[node],
        initializers=[right] if product.constant else [],
        opset_imports={"": FLOOR_OPSET},
        name="product",
    )
    data = ir.to_proto(ir.Model(graph, ir_version=IR_VERSION)).SerializeToString()
    return run_once(resting_session(data, threads), fed)


def torch_task(model: str | None, specs: Sequence[Spec], threads: int) -> Task:
    """One run of transformers' model with random weights: float32, eager, on the CPU.

    **Raises** `MissingLibrary` without PyTorch or transformers, and `BadRequest` where nobody
    says which model it is, or transformers has none.
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
    asked = {"interpolate_pos_encoding": True} if transformers_kind(config).asks else {}

    def task() -> object:
        with torch.inference_mode():
            return network(images, **asked)

    return task


@dataclass(frozen=True)
class Contender:
    """One file, or transformers' model, which has no footprint. `times` are seconds of runs."""

    name: str
    inputs: Sequence[Spec]
    times: Sequence[float]
    footprint: Footprint | None

    def percentile(self, share: float) -> float:
        """Seconds that this share (in percent) of the runs do not exceed."""
        return float(np.percentile(self.times, share))

    @property
    def fastest(self) -> float:
        """Seconds of the fastest run."""
        return min(self.times)


@dataclass(frozen=True)
class Bench:
    """All files in their order, transformers' model last, and the first file's products.

    `others` is how many cores other programs kept busy meanwhile, if that is known.
    """

    options: BenchOptions
    contenders: Sequence[Contender]
    floor: Floor
    others: float | None = None


def measure_files(files: Sequence[Path], options: BenchOptions, progress: Progress) -> Bench:
    """**Raises** a `ZooError` for a file that does not run, or whose inputs stay open."""
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
    timed |= tasks(products, options.threads)
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
    taken = others()
    contenders = [
        Contender(name, sources[index][0], times[index], footprints[index])
        for index, name in enumerate(names)
    ]
    return Bench(options, contenders, floor(products, times), taken)


def _open(file: Path, options: BenchOptions) -> tuple[list[Spec], Task]:
    """The inputs of a file, and a run of it that has succeeded once."""
    if not file.is_file():
        raise BadFile(f"{file} is no file: name .onnx files.")
    manifest = near(file)
    usual = [manifest.preprocessing.size] if manifest else []
    try:
        live = resting_session(file, options.threads)
        specs = settle_inputs(file, live.get_inputs(), options.batch, options.size, *usual)
        task = run_once(live, draw_inputs(specs))
        task()
    except runtime.ERRORS as error:
        raise BadFile(
            f"{file} does not run in ONNX Runtime on the CPU ({first_line(error)}): name "
            f"another file, or another {parameter('size')} or {parameter('batch')}."
        ) from error
    return specs, task
