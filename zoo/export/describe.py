"""The manifest of what was exported: what it is, where it comes from, how it was checked."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions, version
from typing import Any

import onnx_ir as ir

import converter
from weights import Provenance
from zoo.architectures.entry import ModelInfo
from zoo.architectures.kinds import architecture_of
from zoo.artifacts import schema
from zoo.artifacts.choices import Precision, Target
from zoo.artifacts.measured import Verification
from zoo.artifacts.schema import Manifest, StatedPreprocessing, Tensor, Variant
from zoo.common.versions import __version__
from zoo.export.request import Signature
from zoo.registry.lookup import MODELS

BUILD_LIBRARIES = ("jax", "equinox", "numpy", "onnx-ir", "onnxruntime")


def describe_shared(entry: ModelInfo, signature: Signature, provenance: Provenance) -> Manifest:
    """Facts that a manifest says of all files together, and no files yet."""
    how = entry.preprocessing.at(signature.size or entry.preprocessing.size)
    return Manifest(
        format="jax-onnx-zoo manifest",
        format_version=2,
        model=entry.name,
        aliases=entry.aliases,
        source=entry.source,
        licence=schema.StatedLicence(**asdict(entry.licence)),
        parameters=entry.parameters,
        input=signature.input,
        size=signature.size,
        sizes=sizes(entry, signature),
        layers=signature.layers,
        reshape=signature.as_maps,
        preprocessing=StatedPreprocessing(**asdict(how), in_file=signature.input == "uint8"),
        weights=weights_origin(provenance, entry),
        tools=tools(),
        files=(),
        variants={},
        complete=False,
        **_where_it_applies(entry, signature),
    )


def _where_it_applies(entry: ModelInfo, signature: Signature) -> dict[str, Any]:
    """What is said of a network's classes, of one in sizes of its own, and of outputs by name."""
    published = MODELS.get(entry.name)
    other = published is None or entry.config != published.config
    classes = _classifier(entry) if entry.config.classes else {}
    outputs = {"outputs": signature.outputs} if signature.outputs else {}
    network = {"network": entry.config, "family": entry.family} if other else {}
    return classes | outputs | network


def _classifier(entry: ModelInfo) -> dict[str, Any]:
    """Names of the classes and, of a network that gives features, the vector that they are of."""
    kind = architecture_of(entry.config)
    takes = (
        {"classifier_takes": kind.describe_head_input(entry.config)} if kind.gives_features else {}
    )
    return {"classes": entry.class_names, **takes}


def describe_variant(
    model: ir.Model,
    near_misses: Sequence[converter.NearMiss],
    *,
    files: tuple[str, ...],
    precision: Precision,
    target: Target,
    verification: Verification | None,
    minimum_runtime: str | None,
    activations: Mapping[str, Any],
) -> Variant:
    """Facts of a file: what it takes, gives and consists of, and how it was checked."""
    report = converter.report(model)
    attention = [node for node in model.graph if node.op_type == "Attention"]
    return Variant(
        files=files,
        opset=model.opset_imports[""],
        ir_version=model.ir_version,
        precision=precision,
        target=target,
        # Attention on heads side by side has to be told how many there are.
        attention_layout="3d"
        if any("q_num_heads" in node.attributes for node in attention)
        else "4d",
        inputs=tuple(map(_tensor, model.graph.inputs)),
        outputs=tuple(map(_tensor, model.graph.outputs)),
        nodes=report.nodes,
        histogram=dict(sorted(report.histogram.items())),
        fused={name: count for name, count in sorted(report.fused.items()) if count},
        near_misses=tuple(
            schema.StatedNearMiss(pattern=miss.pattern, reason=miss.reason, count=miss.count)
            for miss in near_misses
        ),
        verification=verification,
        minimum_runtime=minimum_runtime,
        **activations,
    )


def _tensor(value: ir.Value) -> Tensor:
    assert value.name and value.dtype and value.shape is not None
    dims = (dim if isinstance(dim, int) else str(dim.value) for dim in value.shape)
    return Tensor(name=value.name, dtype=value.dtype.numpy().name, shape=tuple(dims))


def tools() -> dict[str, str]:
    """Versions of what had a part in it."""
    return {
        "jax-onnx-zoo": __version__,
        "python": platform.python_version(),
        **{
            library: version(name)
            for library in BUILD_LIBRARIES
            for name in _distributions(library)
        },
    }


def _distributions(library: str) -> list[str]:
    """What brought a library here: ONNX Runtime comes under several names."""
    try:
        return [distribution(library).name]
    except PackageNotFoundError:
        return packages_distributions().get(library, [])[:1]


def sizes(entry: ModelInfo, signature: Signature) -> str:
    """Words about what happens at which image size, for who reads the manifest."""
    if signature.input == "uint8":
        return "any height and width: the file resizes as its preprocessing says"
    return entry.config.inputs[0].describe_sizes(signature.size)


def weights_origin(provenance: Provenance, entry: ModelInfo) -> schema.StatedWeights:
    """Where the weights come from, and whether that is the published file."""
    facts = {key: value for key, value in asdict(provenance).items() if value not in (None, ())}
    for key in ("name", "adapter", "folder"):
        if key in facts and not facts[key].isprintable():  # a file may be called anything
            facts[key] = facts[key].encode("unicode_escape").decode()
    if provenance.sha256 is not None and entry.digest:
        # The beginning of it where the published file's name says no more.
        facts["is_published_file"] = provenance.sha256.startswith(entry.digest)
        if entry.embedded:
            facts["is_embedded_file"] = facts["is_published_file"]
    return schema.StatedWeights(**facts)
