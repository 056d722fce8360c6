"""The card of a folder: what a person has to know to use it, from its manifest."""

from __future__ import annotations

import json
from collections.abc import Iterator

from zoo.artifacts.build.snippets import javascript, python
from zoo.artifacts.build.variants import VARIANTS
from zoo.manifest.schema import Manifest
from zoo.manifest.words import NOT_TRAINED, build_rows, steps
from zoo.models.config import ViTConfig
from zoo.registry.lookup import info


def card(manifest: Manifest) -> str:
    """`README.md`."""
    name = manifest.model
    sections = (
        front_matter(manifest),
        f"# {name} in ONNX\n\n{introduction(manifest)}",
        f"## Files\n\n{files(manifest)}",
        f"## Input\n\n{taken(manifest)}",
        f"## Output\n\n{given(manifest)}",
        f"## Python\n\n```python\n{python(manifest)}\n```",
        f"## JavaScript\n\n```js\n{javascript(manifest)}\n```",
        f"## Runtimes\n\n{RUNTIMES}",
        f"## Origin and licence\n\n{origin(manifest)}",
    )
    return "\n\n".join(sections) + "\n"


def front_matter(manifest: Manifest) -> str:
    """What hubs read."""
    licence = manifest.licence
    known = LICENCES.get(licence.text)
    lines = (
        [f"license: {known}"]
        if known
        else [
            "license: other",
            f"license_name: {json.dumps(licence.name)}",
            "license_link: LICENSE",
        ]
    )
    lines += ["library_name: onnx", "pipeline_tag: image-feature-extraction"]
    lines += ["tags:", "- onnx", "- onnxruntime", "- transformers.js", "- vision"]
    return "\n".join(["---", *lines, "---"])


LICENCES = {"apache-2.0.txt": "apache-2.0", "cc-by-4.0.txt": "cc-by-4.0"}
"""Licences that hubs have a word for."""


def introduction(manifest: Manifest) -> str:
    """What it is, and whether its features mean anything."""
    config = info(manifest.model).config
    text = (
        f"{config.text}; {manifest.parameters:,} parameters. Made with jax-onnx-zoo "
        f"{manifest.tools['jax-onnx-zoo']} from the model in JAX, and checked against it in "
        "ONNX Runtime on a photograph."
    )
    if manifest.weights.kind == "random":
        text += f"\n\n**Weights: {NOT_TRAINED.format(seed=manifest.weights.seed)}.**"
    return text


def files(manifest: Manifest) -> str:
    """The table of variants, and how its numbers came about."""
    rows = [
        "| file | opset | precision | MB | nodes | fused operators | against JAX | speed |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, size, nodes, error, ratio in build_rows(manifest):
        variant = manifest.variants[name]
        fused = ", ".join(f"{count} {op}" for op, count in variant.fused.items())
        cells = (
            f"`{VARIANTS[name].file}`",
            str(variant.opset),
            variant.precision,
            size,
            nodes,
            fused,
            error,
            ratio or "not run",
        )
        rows.append(f"| {' | '.join(cells)} |")
    speeds = manifest.speeds
    assert speeds is not None
    return "\n".join(rows) + (
        "\n\n*Against JAX* is the largest absolute difference of any output, or its least cosine "
        "similarity, over all sizes that were tried (`manifest.json` has them). *Speed* is how "
        f"many times faster than `onnx/model.onnx` the median of {speeds.rounds} interleaved "
        f"runs is: {speeds.runtime}, {speeds.machine}, input {list(speeds.input)}."
        "\n\n`golden.safetensors` has the network's input for `photograph.png` (Chelsea, by "
        "Stéfan van der Walt, CC0) and its outputs in JAX, in float32; `manifest.json` has the "
        "digest of every file."
    )


def taken(manifest: Manifest) -> str:
    """The input, and the exact way to it."""
    how = manifest.preprocessing.settings
    if manifest.input == "uint8":
        return (
            "`image`: RGB, uint8 `[batch_size, height, width, 3]`, any height and width. The "
            f"preprocessing is part of every file: {steps(how)}."
        )
    return (
        "`pixel_values`: float32 `[batch_size, 3, height, width]`. "
        f"Sizes: {manifest.sizes}.\n\nPreprocessing: {steps(how)}. "
        "`preprocessor_config.json` says the same to transformers"
        f"{' (whose class for it needs torchvision)' if how.rescale_first else ''} and to "
        "transformers.js, which resizes a little differently."
    )


def given(manifest: Manifest) -> str:
    """The outputs."""
    return "\n".join(f"- {line}" for line in outputs(manifest))


def outputs(manifest: Manifest) -> Iterator[str]:
    """Each output in words."""
    entry = info(manifest.model)
    config = entry.config
    names = {item.name for variant in manifest.variants.values() for item in variant.outputs}
    layout = ["the patches, by rows"]
    if isinstance(config, ViTConfig):
        if config.registers:
            layout.insert(0, f"{config.registers} registers")
        if config.cls_token:
            layout.insert(0, "the class token")
        counted = f"{config.prefix_tokens} + (height / {config.stride}) * (width / {config.stride})"
    else:
        layout = ["the mean", "the pixels of the last map, by rows"]
        counted = f"1 + (height / {config.stride}) * (width / {config.stride})"
    yield (
        f"`last_hidden_state`: `[batch_size, {counted}, {config.dim}]`, after the final norm. "
        f"Rows: {', then '.join(layout)}."
    )
    if "pooler_output" in names:
        yield f"`pooler_output`: `[batch_size, {config.dim}]`, {entry.pooler}."
    if "logits" in names:
        yield f"`logits`: `[batch_size, {config.classes}]`, a linear classifier's."


RUNTIMES = """\
| runtime | file |
|---|---|
| ONNX Runtime, onnxruntime-web, transformers.js | any; `model_fused.onnx` from 1.23 on |
| ONNX Runtime with CUDA | any; `model_fused.onnx` from 1.25 on |
| TensorRT | `model.onnx`, `model_fp16.onnx`; `model_fused.onnx` from 10.15 on |
| OpenVINO | `model.onnx`; `model_fused.onnx` from 2026.3 on |
| others (Qualcomm QNN, …) | `model.onnx`, which has nothing newer than opset 18 |

The first row is tested; the others are what the runtimes' own notes say. `model_int8.onnx` is for
CPUs, `model_fp16.onnx` for GPUs: on a CPU it is as slow as float32."""


def origin(manifest: Manifest) -> str:
    """Where the weights come from and on what terms."""
    weights, licence = manifest.weights, manifest.licence
    if weights.kind == "random":
        source = NOT_TRAINED.format(seed=weights.seed).capitalize()
    else:
        source = f"Weights: `{weights.name}`, sha256 `{weights.sha256}`"
    return (
        f"{source}. Architecture: {manifest.source}.\n\n"
        f"The weights, and so these files, are under the {licence.name} "
        f"(<{licence.page}>), whose text is in `LICENSE`."
    )
