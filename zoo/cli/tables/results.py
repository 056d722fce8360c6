"""Results as a person reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from zoo.models.config import Config, Preprocessing, ViTConfig
from zoo.registry.entry import ModelInfo

if TYPE_CHECKING:
    from zoo.artifacts.build.schedule import Outcome as BuildOutcome
    from zoo.checkpoints.convert import Converted
    from zoo.checkpoints.golden import Golden
    from zoo.checkpoints.inspect import Inspection
    from zoo.export.many import Outcome
    from zoo.export.run import Exported
    from zoo.manifest.schema import Comparison, Manifest, Variant, Verification, Weights

NOT_TRAINED = "random (seed {seed}): the shapes are real, the features mean nothing"


def show_exports(exports: Sequence[Exported]) -> None:
    """What was written and how far it is from JAX; then what could not be fused, and why."""
    table = Table(title=exports[0].manifest.model)
    for name in ("opset", "MB", "nodes"):
        table.add_column(name, justify="right")
    table.add_column("fused")
    table.add_column("difference from JAX")
    for export in exports:
        table.add_row(*_numbers(export.manifest), verdict(export.manifest.only))
    console = Console()
    console.print(table)
    for line in notes(exports):
        console.print(line, highlight=False, soft_wrap=True)


def show_outcomes(outcomes: Sequence[Outcome]) -> None:
    """One line a file of many exports, then what could not be made, and why."""
    table = Table(title=f"{len(outcomes)} models")
    table.add_column("model", no_wrap=True)
    for name in ("opset", "MB", "nodes"):
        table.add_column(name, justify="right")
    table.add_column("fused", no_wrap=True)
    table.add_column("worst difference", justify="right")
    table.add_column("s", justify="right")
    for outcome in outcomes:
        for manifest in outcome.manifests:
            row = (*_numbers(manifest), worst_of(manifest.only))
            table.add_row(outcome.model, *row, f"{outcome.seconds:.0f}")
        if not outcome.manifests:
            table.add_row(outcome.model, "", "", "", "", "failed", f"{outcome.seconds:.0f}")
    console = Console()
    console.print(table)
    for outcome in outcomes:
        lines = [f"weights: {origin(manifest.weights)}" for manifest in outcome.manifests[:1]]
        _tell(console, outcome.model, lines)
    for outcome in outcomes:
        wrong = [f"{path} was not written: it is wrong" for path in outcome.failed]
        _tell(console, outcome.model, [*wrong, outcome.error])


def _tell(console: Console, model: str, lines: Iterable[str | None]) -> None:
    for line in filter(None, lines):
        console.print(f"{model}: {line}", highlight=False, markup=False, soft_wrap=True)


def _numbers(manifest: Manifest) -> tuple[str, str, str, str]:
    """Opset, megabytes, nodes and fused operators of a file that was exported alone."""
    variant = manifest.only
    fused = "\n".join(f"{count} {name}" for name, count in variant.fused.items())
    return str(variant.opset), _megabytes(manifest, variant), str(variant.nodes), fused


def _megabytes(manifest: Manifest, variant: Variant) -> str:
    return f"{sum(manifest.listed[name].bytes for name in variant.files) / 1e6:.1f}"


def show_builds(outcomes: Sequence[BuildOutcome]) -> None:
    """One line a file of every folder, then what could not be made, and why."""
    table = Table(title=f"{len(outcomes)} folders")
    for name in ("model", "file"):
        table.add_column(name, no_wrap=True)
    for name in ("MB", "nodes", "against JAX", "speed"):
        table.add_column(name, justify="right")
    for outcome in outcomes:
        for row in build_rows(outcome.manifest) if outcome.manifest else ():
            table.add_row(outcome.plan.model, *row)
    console = Console()
    console.print(table)
    for outcome in outcomes:
        lines = [f"{name} was not written: it is too far from float32" for name in outcome.wrong]
        _tell(console, outcome.plan.model, [*lines, outcome.error])


def build_rows(manifest: Manifest) -> Iterator[tuple[str, str, str, str, str]]:
    """Of every variant in a folder: name, megabytes, nodes, worst difference, speed."""
    speeds = manifest.speeds.variants if manifest.speeds else {}
    for name, variant in manifest.variants.items():
        ratio = speeds[name].ratio if name in speeds else None
        yield (
            name,
            _megabytes(manifest, variant),
            str(variant.nodes),
            worst_of(variant),
            "" if ratio is None else f"x {ratio:.2f}",
        )


def notes(exports: Sequence[Exported]) -> list[str]:
    """What the table has no room for: places, weights, patterns that were not fused."""
    places = [f"{export.target} was {fate(export)}" for export in exports]
    unfused = [line for export in exports for line in misses(export.manifest.only)]
    return [*places, f"weights: {origin(exports[0].manifest.weights)}", *dict.fromkeys(unfused)]


def fate(export: Exported) -> str:
    """What became of a file."""
    if export.published:
        return "written"
    if export.manifest.only.precision == "fp32":
        return "not written: it is wrong"
    return "not written: it is too far from float32 (--force keeps it)"


def verdict(variant: Variant) -> str:
    """One line a batch and image size: the worst output's largest absolute difference."""
    verification = variant.verification
    if verification is None:
        return "not verified"
    shapes: dict[str, list[Comparison]] = {}
    for found in verification.comparisons:
        shape = f"{found.batch} x {found.height} x {found.width}"
        shapes.setdefault(shape, []).append(found)
    lines = [f"{worst(verification, found)} at {shape}" for shape, found in shapes.items()]
    state = "passed" if verification.passed else "FAILED"
    return "\n".join([*lines, f"{state} ({limit(verification)})"])


def worst_of(variant: Variant) -> str:
    """The worst of all comparisons."""
    verification = variant.verification
    return worst(verification, verification.comparisons) if verification else "not verified"


def worst(verification: Verification, comparisons: Sequence[Comparison]) -> str:
    """The worst of some comparisons, in the measure that counts."""
    errors = [item.error(verification.measure) for item in comparisons]
    values = [error for error in errors if error is not None]
    if not values or len(values) < len(errors):
        return "no number"
    return f"cosine {min(values):.6f}" if verification.measure == "cosine" else f"{max(values):.1e}"


def limit(verification: Verification) -> str:
    """What was asked of a file."""
    if verification.measure == "cosine":
        return f"cosine ≥ {verification.limit}"
    return f"≤ {verification.limit:.0e}"


def origin(weights: Weights) -> str:
    """Where the weights come from."""
    if weights.seed is not None:
        return NOT_TRAINED.format(seed=weights.seed)
    verdicts = {True: ", the published file", False: ", not the published file", None: ""}
    published = verdicts[weights.is_published_file]
    if weights.is_embedded_file:
        published = ", trained, from this package"
    digest = f", sha256 {weights.sha256[:8]}…" if weights.sha256 else ""
    return f"{weights.name or weights.kind}{digest}{published}"


def misses(variant: Variant) -> list[str]:
    """What looked like a pattern and was not fused."""
    return [f"not fused: {miss.pattern}: {miss.reason}" for miss in variant.near_misses]


def show_verification(file: Path, verification: Verification) -> None:
    """Every output at every batch size."""
    state = "passed" if verification.passed else "FAILED"
    table = Table(title=f"{file.name}: {state} ({limit(verification)})")
    table.add_column("output")
    for name in ("batch", "size", "max abs", "max rel", "cosine"):
        table.add_column(name, justify="right")
    for comparison in verification.comparisons:
        errors = (comparison.max_abs, comparison.max_rel, comparison.cosine)
        table.add_row(
            comparison.output,
            str(comparison.batch),
            f"{comparison.height}x{comparison.width}",
            *(
                "" if error is None else f"{error:{style}}"
                for error, style in zip(errors, (".1e", ".1e", ".7f"), strict=True)
            ),
        )
    Console().print(table)


def show_models(models: Sequence[ModelInfo]) -> None:
    """One line a model."""
    table = Table()
    table.add_column("model", no_wrap=True)
    for name in ("parameters", "width", "depth"):
        table.add_column(name, justify="right")
    for model in models:
        numbers = (model.config.dim, model.config.depth)
        table.add_row(model.name, f"{model.parameters:,}", *map(str, numbers))
    Console().print(table)


def show_model(model: ModelInfo) -> None:
    """Everything about one model."""
    config, how = model.config, model.preprocessing
    table = Table(show_header=False, title=model.name)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    rows = {
        "also called": ", ".join(model.aliases) or "nothing else",
        "parameters": f"{model.parameters:,}",
        "architecture": config.text,
        "preprocessing": steps(how),
        "positions": positions(config),
        "pooler_output": model.pooler,
        "checkpoint": model.file,
        "licence": f"{model.licence.name}, {model.licence.page}",
        "download": model.licence.download or "not needed: this package holds the weights",
        "source": model.source,
    }
    for name, text in rows.items():
        table.add_row(name, text)
    Console().print(table)


def steps(how: Preprocessing) -> str:
    """From a photograph to `pixel_values`, in words."""
    height, width = how.size
    to = f"{height} x {width}"
    if how.resize is not None:
        to = f"a shorter edge of {how.resize}, {to} cropped from the centre"
    depth = "" if how.rescale_first else ", in 8 bits"
    resized = f"resized to {to} ({how.resample}, antialiased{depth})"
    return f"RGB / 255, {resized}, mean {how.mean}, std {how.std}"


def positions(config: Config) -> str:
    """At which sizes a model knows where patches are, in words."""
    learned = config.positions if isinstance(config, ViTConfig) else None
    if learned is None:
        return "any size"
    side = learned.grid * config.stride
    return f"learned at {side} x {side}, interpolated for any other size"


PUBLISHERS = {
    "meta": "Meta (facebookresearch)",
    "equimo": "Equimo",
    "google": "Google DeepMind",
    "original": "the authors",
    "huggingface": "Hugging Face transformers",
    "timm": "timm",
    "eqx": "Equinox",
}

MOST_TENSORS = 1000
"""Lines of tensors that are shown."""


def show_inspection(found: Inspection) -> None:
    """What a checkpoint is, then its tensors."""
    rows = {
        "container": found.checkpoint.container,
        "names": PUBLISHERS[found.naming],
        "fits": " or ".join(found.models) or "no model of the zoo",
        "tensors": f"{len(found.checkpoint.tensors)}, {found.parameters:,} numbers",
        "types": ", ".join(f"{count} {dtype}" for dtype, count in found.dtypes.items()),
        "size": f"{found.bytes / 1e6:,.1f} MB",
        "rotary periods": found.periods,
    }
    table = Table(show_header=False, title=escape(found.checkpoint.path.name))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows.items():
        table.add_row(name, escape(text))
    console = Console()
    console.print(table)
    for key, tensor in list(found.checkpoint.tensors.items())[:MOST_TENSORS]:
        name = key if key.isprintable() else ascii(key)
        line = f"{name}  {tensor.dtype} {list(tensor.shape)}"
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def show_converted(converted: Converted) -> None:
    """What was written, and what had to be made up."""
    console = Console()
    line = f"{converted.target} was written: {converted.model} for {PUBLISHERS[converted.naming]}"
    console.print(line, highlight=False, markup=False, soft_wrap=True)
    if converted.filled:
        text = f"the source does not hold {', '.join(converted.filled)}: written as initialised"
        console.print(text, highlight=False, markup=False, soft_wrap=True)


def show_differences(
    file: Path, golden: Golden, results: Sequence[tuple[str, Mapping[str, float], float]]
) -> None:
    """How far from the reference each output is."""
    table = Table(title=f"{golden.model} against {golden.reference} ({file.name})")
    for name in ("where", "output", "max abs", "limit", ""):
        table.add_column(name)
    for where, errors, limit in results:
        for output, error in errors.items():
            verdict = "ok" if error <= limit else "FAILED"
            table.add_row(where, output, f"{error:.1e}", f"{limit:.0e}", verdict)
    Console().print(table)
