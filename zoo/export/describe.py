"""Describe exported files in their manifest: contents, origin and verification."""

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
    """Return a manifest with the facts that all files share, without files."""
    preprocessing = entry.preprocessing.at(signature.size or entry.preprocessing.size)
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
        sizes=describe_sizes(entry, signature),
        layers=signature.layers,
        reshape=signature.as_maps,
        preprocessing=StatedPreprocessing(
            **asdict(preprocessing), in_file=signature.input == "uint8"
        ),
        weights=describe_origin(provenance, entry),
        tools=tool_versions(),
        files=(),
        variants={},
        complete=False,
        **_optional_fields(entry, signature),
    )


def _optional_fields(entry: ModelInfo, signature: Signature) -> dict[str, Any]:
    """Return the fields about classes, about outputs selected by name, and about a network that is
    not the published one."""
    published = MODELS.get(entry.name)
    is_custom = published is None or entry.config != published.config
    classes = _classifier_fields(entry) if entry.config.classes else {}
    outputs = {"outputs": signature.outputs} if signature.outputs else {}
    network = {"network": entry.config, "family": entry.family} if is_custom else {}
    return classes | outputs | network


def _classifier_fields(entry: ModelInfo) -> dict[str, Any]:
    """Return the names of the classes and, for a network that also returns features, the input of
    its classifier."""
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
    """Return the record of a file: inputs, outputs, operators and verification."""
    report = converter.report(model)
    attention = [node for node in model.graph if node.op_type == "Attention"]
    return Variant(
        files=files,
        opset=model.opset_imports[""],
        ir_version=model.ir_version,
        precision=precision,
        target=target,
        # Only `Attention` with 3-D inputs has an attribute for the number of heads.
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
    """Return the record of an input or output."""
    assert value.name and value.dtype and value.shape is not None
    dims = (dim if isinstance(dim, int) else str(dim.value) for dim in value.shape)
    return Tensor(name=value.name, dtype=value.dtype.numpy().name, shape=tuple(dims))


def tool_versions() -> dict[str, str]:
    """Return the versions of the programs that made the files, by name."""
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
    """Return the name of the distribution that installed a library, as a list, or an empty list if
    there is none. ONNX Runtime has several distributions."""
    try:
        return [distribution(library).name]
    except PackageNotFoundError:
        return packages_distributions().get(library, [])[:1]


def describe_sizes(entry: ModelInfo, signature: Signature) -> str:
    """Return the image sizes that files take and their treatment, in words."""
    if signature.input == "uint8":
        return "any height and width: the file resizes as its preprocessing says"
    return entry.config.inputs[0].describe_sizes(signature.size)


def describe_origin(provenance: Provenance, entry: ModelInfo) -> schema.StatedWeights:
    """Return the origin of the weights, and whether they are the published file."""
    facts = {key: value for key, value in asdict(provenance).items() if value not in (None, ())}
    for key in ("name", "adapter", "folder"):
        if key in facts and not facts[key].isprintable():  # file names may have any characters
            facts[key] = facts[key].encode("unicode_escape").decode()
    if provenance.sha256 is not None and entry.digest:
        # `entry.digest` may be the beginning of the digest only, from the published file's name.
        facts["is_published_file"] = provenance.sha256.startswith(entry.digest)
        if entry.embedded:
            facts["is_embedded_file"] = facts["is_published_file"]
    return schema.StatedWeights(**facts)
