"""Small folders as a build writes them, with tiny networks and random bytes in place of large
files."""

import hashlib
import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

MODEL = "dinov3_vits16"
SIZE = (32, 48)
MEAN, STD = (0.5, 0.25, 0.125), (0.5, 0.25, 0.5)


def mean_of_pixels(scale: float) -> bytes:
    """Return an ONNX file that maps `pixel_values [n, 3, 32, 48]` to `pooler_output [n, 3]`, the
    scaled mean of each channel."""
    factor = helper.make_tensor("factor", TensorProto.FLOAT, [], [scale])
    pixels = helper.make_tensor_value_info("pixel_values", TensorProto.FLOAT, ["n", 3, *SIZE])
    scaled = helper.make_node("Mul", ["pixel_values", "factor"], ["scaled"])
    return _means(pixels, scaled, [2, 3], factor)


def channel_means() -> bytes:
    """Return an ONNX file that maps uint8 `image [n, h, w, 3]` to `pooler_output [n, 3]`, the mean
    of each channel."""
    image = helper.make_tensor_value_info("image", TensorProto.UINT8, ["n", "h", "w", 3])
    floats = helper.make_node("Cast", ["image"], ["scaled"], to=TensorProto.FLOAT)
    return _means(image, floats, [1, 2])


def _means(
    graph_input: onnx.ValueInfoProto,
    first: onnx.NodeProto,
    axes: list[int],
    *initializers: onnx.TensorProto,
) -> bytes:
    """Return an ONNX file that averages the result `scaled` of its first node over two axes.
    `graph_input` is its input, and `initializers` are those of the first node."""
    pooled = helper.make_tensor_value_info("pooler_output", TensorProto.FLOAT, ["n", 3])
    tensors = [*initializers, helper.make_tensor("axes", TensorProto.INT64, [2], axes)]
    mean = helper.make_node("ReduceMean", ["scaled", "axes"], ["pooler_output"], keepdims=0)
    graph = helper.make_graph([first, mean], "mean", [graph_input], [pooled], tensors)
    opsets = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


VARIANTS = {
    "fp32": ("onnx/model.onnx",),
    "fused": ("onnx/model_fused.onnx",),
    "fp16": ("onnx/model_fp16.onnx", "onnx/model_fp16.onnx_data"),
}
COMMON = {
    *("config.json", "preprocessor_config.json", "README.md", "LICENSE"),
    *("golden.safetensors", "photograph.png"),
}
"""Files that every variant has."""

VERIFICATION = {"input": "", "measure": "max_abs", "limit": 1e-4, "passed": True, "comparisons": []}


def contents(seed: int = 0) -> dict[str, bytes]:
    """Return the contents of the files by name. Another seed gives other models and the same
    licence."""
    noise = np.random.default_rng(seed).bytes
    return {
        "onnx/model.onnx": mean_of_pixels(1 + seed),
        "onnx/model_fused.onnx": mean_of_pixels(2 + seed),
        "onnx/model_fp16.onnx": noise(20_000),
        "onnx/model_fp16.onnx_data": noise(700_001),
        "config.json": b"{}\n",
        "preprocessor_config.json": b'{"size": 1}\n',
        "README.md": b"---\nlicense: other\n---\n# A model\n",
        "golden.safetensors": noise(3_000),
        "photograph.png": noise(2_000),
        "LICENSE": b"Terms.\n",
    }


def manifest(files: dict[str, bytes], /, **changes: object) -> dict:
    """Return the manifest that a build writes for these files, with `changes` of its fields."""
    record = {
        "format": "jax-onnx-zoo manifest",
        "format_version": 2,
        "model": MODEL,
        "aliases": [],
        "source": "here",
        "licence": {"name": "other", "text": "other.txt", "page": "", "download": ""},
        **{"parameters": 1, "input": "float32", "size": list(SIZE), "sizes": "fixed"},
        **{"layers": [], "reshape": False},
        "preprocessing": {
            **{"mean": list(MEAN), "std": list(STD), "size": list(SIZE), "resize": None},
            **{"rescale": 1 / 255, "rescale_first": False, "resample": "bilinear"},
            "in_file": False,
        },
        "weights": {"kind": "random", "seed": 0},
        "tools": {},
        "files": [
            {"name": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in files.items()
        ],
        "variants": {
            name: {
                "files": list(parts),
                **{"opset": 18, "ir_version": 10, "nodes": 2, "attention_layout": "4d"},
                "precision": "fp16" if name == "fp16" else "fp32",
                **{"inputs": [], "outputs": [], "near_misses": []},
                **{"histogram": {}, "fused": {}},
                "verification": dict(VERIFICATION),
            }
            for name, parts in VARIANTS.items()
            if set(parts) <= set(files)
        },
        "complete": True,
    }
    return record | changes


def published(files: dict[str, bytes], **changes: object) -> dict[str, bytes]:
    """Return the files with their manifest."""
    return {**files, "manifest.json": json.dumps(manifest(files, **changes)).encode()}


def listed(folder: Path) -> set[str]:
    """Return the paths of all files below a folder."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def write(folder: Path, files: dict[str, bytes]) -> Path:
    """Write files into a folder and return it."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder
