"""What the zoo states about each published model: outputs, purpose, answers, drawings and the card.

    python -m tests.zoo.tasks.statements

writes `statements.json`, which has a digest of each statement by model. The difference shows for
which models a statement has changed.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from weights import Provenance
from zoo.architectures.entry import ModelInfo
from zoo.artifacts.schema import Manifest
from zoo.export.assemble.extras import render_card
from zoo.export.describe import make_shared_manifest
from zoo.export.network_inputs import input_specs
from zoo.export.request import Signature
from zoo.registry.lookup import MODELS
from zoo.registry.model_descriptions import describe_purpose
from zoo.tasks.answer import InputPicture, InputSize, Question

DIGESTS = Path(__file__).with_name("statements.json")

PICTURE = (40, 56)
"""(height, width) of the picture that questions are about."""

STRIDES = (2, 3)
"""Height and width of a network's input, in patches."""


def states(entry: ModelInfo) -> dict[str, str]:
    """Return the digest of each statement about a model."""
    statements = {
        "outputs": outputs_of(entry),
        "purpose": [describe_purpose(entry), entry.config.task.name],
        "answer": answer_of(entry),
        "comparison": comparison_of(entry),
        "inputs": [[str(spec) for spec in input_specs(entry.config, sign)] for sign in SIGNATURES],
        "card": render_card(manifest_of(entry)),
    }
    return {name: _digest(value) for name, value in statements.items()}


SIGNATURES = (Signature((96, 192), 2), Signature(None, None))


def _digest(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def outputs_of(entry: ModelInfo) -> dict[str, list[str]]:
    """Return the shapes and descriptions of the outputs, by name."""
    described = entry.config.task.describe_outputs(entry.pooler)
    return {name: [output.shape, output.words] for name, output in described.items()}


def sample_outputs(entry: ModelInfo) -> dict[str, np.ndarray]:
    """Return random outputs of the right shapes for one picture, with the batch axis."""
    stride, rng = entry.config.stride, np.random.default_rng(0)
    height, width = (side * stride for side in STRIDES)
    sizes = {"height": height, "width": width, "tokens": 7, "sequence_length": 7}
    batches = dict.fromkeys(("batch_size", "image_batch_size", "text_batch_size"), 1)

    def draw(shape: str) -> np.ndarray:
        expression = shape.strip("[]").replace("/", "//")
        assert re.fullmatch(r"[\w\s+*/(),]*", expression)
        sides = eval(expression + ",", {"__builtins__": {}}, {**sizes, **batches})
        return rng.standard_normal(sides, np.float32)

    drawn_outputs = {name: draw(shape) for name, (shape, _) in outputs_of(entry).items()}
    return {name: value for name, value in drawn_outputs.items() if value.size}


def answer_of(entry: ModelInfo) -> list[Any]:
    """Return facts of an answer and a drawing that do not depend on rounding."""
    config, batch = entry.config, sample_outputs(entry)
    if config.pictures is None:
        return []
    task = config.task
    size = tuple(side * config.stride for side in STRIDES)
    input_size = InputSize((size[0], size[1]), entry.preprocessing.padded)
    picture = Image.new("RGB", PICTURE[::-1])
    input_picture = InputPicture(entry.class_names, PICTURE, input_size, picture)
    question = Question(threshold=0.3)
    rows = {name: value[0] for name, value in batch.items()}
    result = task.answer(rows, input_picture, question)
    drawing = task.draw(batch, (size[0], size[1]))
    result_without_outputs = task.answer({}, input_picture, question)
    return [
        [result.kind, result_without_outputs.kind, sorted(result.features), len(result.boxes)],
        [[answer.label, round(answer.score, 2)] for answer in result.answers],
        result.drawing and [result.drawing.size, result.drawing.mode],
        None if result.values is None else [result.values.shape, result.values.dtype.name],
        drawing and [drawing[0].shape, drawing[1]],
        sorted(task.page_draws),
    ]


def comparison_of(entry: ModelInfo) -> list[Any]:
    """Return how outputs in low precision are compared, and which of them stay in float32."""
    task, batch = entry.config.task, sample_outputs(entry)
    reversed_rows = {
        name: value[:, ::-1] if value.ndim > 1 else value for name, value in batch.items()
    }
    aligned, aligned_batch = task.align_outputs(reversed_rows, batch)
    agrees = {name: bool(np.allclose(aligned[name], aligned_batch[name])) for name in batch}
    return [agrees, sorted(task.exact), task.similarity is not None]


VARIANT: dict[str, Any] = {
    "files": ["onnx/model.onnx"],
    **{"opset": 18, "ir_version": 8, "precision": "fp32", "attention_layout": "4d"},
    **{"nodes": 2, "histogram": {}, "fused": {}, "near_misses": [], "inputs": []},
    "verification": {
        **{"input": "x", "measure": "max_abs", "limit": 1e-4, "passed": True},
        "comparisons": [{"output": "x", "max_abs": 0.0, "max_rel": 0.0, "cosine": 1.0, "batch": 1}],
    },
}


def manifest_of(entry: ModelInfo) -> Manifest:
    """Return the manifest of a folder with one file that has all outputs."""
    signature = Signature(None, None)
    shared = make_shared_manifest(entry, signature, Provenance("random", seed=0))
    outputs = [{"name": name, "dtype": "float32", "shape": []} for name in outputs_of(entry)]
    file = {"name": "onnx/model.onnx", "bytes": 1, "sha256": "0" * 64}
    speeds = {"runtime": "x", "machine": "x", "input": [1], "rounds": 1, "variants": {}}
    similarity = {"scale": 2.0, "bias": 0.5, "probabilities": entry.config.scores}
    compares = entry.config.task.similarity is not None
    folder_facts = {
        "files": [file],
        "variants": {"fp32": {**VARIANT, "outputs": outputs}},
        "speeds": speeds,
        "complete": True,
        "tools": {"jax-onnx-zoo": "0"},
        **({"similarity": similarity} if compares else {}),
    }
    shared_facts = shared.model_dump(mode="json", exclude_unset=True)
    return Manifest.model_validate_json(json.dumps(shared_facts | folder_facts))


def all_states() -> dict[str, dict[str, str]]:
    """Return the digests of all models."""
    return {name: states(entry) for name, entry in MODELS.items()}


if __name__ == "__main__":
    DIGESTS.write_text(json.dumps(all_states(), indent=1) + "\n", encoding="utf-8")
