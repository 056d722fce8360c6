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
"""Libraries whose versions a manifest records."""


def make_shared_manifest(
    entry: ModelInfo, signature: Signature, provenance: Provenance
) -> Manifest:
    """Return a manifest without files and variants, with the facts that all files of an export
    share.

    Its `complete` is false. The facts are the model, its licence and preprocessing, the inputs and
    outputs, the origin of the weights, and the versions of the tools.
    """
    preprocessing = entry.preprocessing.with_size(signature.size or entry.preprocessing.size)
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
    """Return the fields of a manifest that only some models have.

    These are fields about classes, about outputs that were selected by name, and about a network
    whose configuration is not a published one.
    """
    published = MODELS.get(entry.name)
    is_custom = published is None or entry.config != published.config
    classes = _classifier_fields(entry) if entry.config.classes else {}
    outputs = {"outputs": signature.outputs} if signature.outputs else {}
    network = {"network": entry.config, "family": entry.family} if is_custom else {}
    return classes | outputs | network


def _classifier_fields(entry: ModelInfo) -> dict[str, Any]:
    """Return the manifest's fields about a classifier: the class names and, for a network that also
    returns features, a description of the classifier's input."""
    kind = architecture_of(entry.config)
    head_input = (
        {"classifier_takes": kind.describe_head_input(entry.config)} if kind.gives_features else {}
    )
    return {"classes": entry.class_names, **head_input}


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
    """Return the manifest's record of an ONNX file: inputs, outputs, operators and verification.

    **Arguments:**

    - `model`: the graph of the file.
    - `near_misses`: structures that the converter almost recognized, for the record.
    - `files`: paths of the file and its sidecar in their folder.
    - `precision`, `target`: number format of the file, and the runtime that it is for.
    - `verification`: its comparison with JAX, or None if it was not verified.
    - `minimum_runtime`: oldest version of ONNX Runtime in which it is right, or None if not known.
    - `activations`: further fields of the record, about the scaling of integer activations.
    """
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
        inputs=tuple(map(_describe_tensor, model.graph.inputs)),
        outputs=tuple(map(_describe_tensor, model.graph.outputs)),
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


def _describe_tensor(value: ir.Value) -> Tensor:
    """Return the manifest's record of an input or output of a graph: name, dtype and shape. An open
    dimension is a name."""
    assert value.name and value.dtype and value.shape is not None
    dims = (dim if isinstance(dim, int) else str(dim.value) for dim in value.shape)
    return Tensor(name=value.name, dtype=value.dtype.numpy().name, shape=tuple(dims))


def tool_versions() -> dict[str, str]:
    """Return the versions of this package, of Python and of `BUILD_LIBRARIES`, by name.

    Libraries that are not installed are left out.
    """
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
    """Return a list with the name of the distribution that installed a library, or an empty list if
    it is not installed.

    The names may differ: ONNX Runtime has several distributions, such as `onnxruntime-gpu`.
    """
    try:
        return [distribution(library).name]
    except PackageNotFoundError:
        return packages_distributions().get(library, [])[:1]


def describe_sizes(entry: ModelInfo, signature: Signature) -> str:
    """Return a sentence about the image sizes that a file takes, and what it does with other
    sizes."""
    if signature.input == "uint8":
        return "any height and width: the file resizes as its preprocessing says"
    return entry.config.inputs[0].describe_sizes(signature.size)


def describe_origin(provenance: Provenance, entry: ModelInfo) -> schema.StatedWeights:
    """Return the manifest's record of the origin of the weights.

    If the sha256 of the weights and of the published file are known, the record says whether they
    are the same file.
    """
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
