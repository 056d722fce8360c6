"""Small seeded networks of every class of transformers (5.24) that the zoo reads.

For each class, one setting at a time has another value. A network has the tensors and the outputs
that transformers computes with the changed settings.

Parameters follow from their names, so that a setting that adds a tensor changes no other tensor.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import torch
import transformers
from huggingface_hub.errors import StrictDataclassError
from safetensors.torch import save_file

from tests.references import Arrays, deim, detection
from tests.synthetic import digest
from zoo.architectures.architecture import TransformersClass
from zoo.architectures.kinds import ARCHITECTURES

Settings = dict[str, Any]

CLASSES = {entry.name: entry for kind in ARCHITECTURES for entry in kind.transformers_classes}
"""The classes that the zoo reads, by their names."""

SIZES = {
    **{"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2},
    "intermediate_size": 48,
}
PICTURES = {**SIZES, "image_size": 32, "patch_size": 8}
WORDS = {
    **{**SIZES, "vocab_size": 99, "max_position_embeddings": 8},
    **{"eos_token_id": 98, "bos_token_id": 97, "pad_token_id": 96},
}
STAGES = {"depths": [1, 2, 1, 1], "hidden_sizes": [8, 12, 16, 20]}
WINDOWED = {
    **{"embed_dim": 12, "depths": [2, 2], "num_heads": [2, 3], "window_size": 3},
    **{"image_size": 48, "pretrained_window_sizes": [2, 0]},
}
ROTATED = {**SIZES, "patch_size": 8, "num_register_tokens": 2}
GATED = PICTURES | {"mlp_ratio": 2}
DINOV2 = {name: value for name, value in GATED.items() if name != "intermediate_size"}
TIPS_WORDS = WORDS | {"max_position_embeddings": 64}
TIPS = {"vision_config": DINOV2 | {"num_register_tokens": 1}, "text_config": TIPS_WORDS}
BACKBONE = DINOV2 | {"model_type": "dinov2", "num_hidden_layers": 4, "out_indices": [1, 2, 3, 4]}
DEPTHS = {
    **{"backbone_config": BACKBONE | {"reshape_hidden_states": False}, "patch_size": 8},
    **{"reassemble_hidden_size": 32, "neck_hidden_sizes": [8, 12, 16, 20]},
    **{"fusion_hidden_size": 16, "head_hidden_size": 6},
}
AREAS = {
    **{**SIZES, "patch_size": 8, "image_size": 32, "num_hidden_layers": 3, "num_blocks": 1},
    **{"num_queries": 5, "num_upscale_blocks": 1, "num_register_tokens": 2, "num_labels": 3},
}
PATCHES = {**SIZES, "num_patches": 16, "patch_size": 8}
THINGS = {"backbone_config": detection.BACKBONE | {"num_windows": 2}, **detection.SETTINGS}

BASES: Mapping[str, Settings] = {
    "DINOv3ViTModel": ROTATED,
    "Dinov2Model": DINOV2,
    "Dinov2WithRegistersModel": DINOV2 | {"num_register_tokens": 2},
    "Dinov2ForImageClassification": DINOV2,
    "Dinov2WithRegistersForImageClassification": DINOV2 | {"num_register_tokens": 2},
    "SiglipVisionModel": PICTURES,
    "Siglip2VisionModel": PATCHES,
    "SiglipForImageClassification": {"vision_config": PICTURES},
    "Tipsv2VisionModel": TIPS["vision_config"],
    "CLIPVisionModelWithProjection": PICTURES | {"projection_dim": 24},
    "CLIPVisionModel": PICTURES,
    "CLIPForImageClassification": {"vision_config": PICTURES, "text_config": WORDS},
    "ViTForImageClassification": PICTURES,
    "ViTModel": PICTURES,
    "DeiTModel": PICTURES,
    "DeiTForImageClassification": PICTURES,
    "DeiTForImageClassificationWithTeacher": PICTURES,
    "DINOv3ConvNextModel": STAGES,
    "ConvNextModel": STAGES,
    "ConvNextV2Model": STAGES,
    "ConvNextForImageClassification": STAGES,
    "ConvNextV2ForImageClassification": STAGES,
    "Swinv2Model": WINDOWED,
    "Swinv2ForImageClassification": WINDOWED,
    "SiglipTextModel": WORDS,
    "Tipsv2TextModel": TIPS_WORDS,
    "CLIPTextModelWithProjection": WORDS | {"projection_dim": 24},
    "CLIPTextModel": WORDS,
    "SiglipModel": {"vision_config": PICTURES, "text_config": WORDS},
    "Siglip2Model": {"vision_config": PATCHES, "text_config": WORDS},
    "Tipsv2Model": TIPS,
    "CLIPModel": {"vision_config": PICTURES, "text_config": WORDS, "projection_dim": 24},
    "DepthAnythingForDepthEstimation": DEPTHS,
    "EomtDinov3ForUniversalSegmentation": AREAS,
    "RfDetrForObjectDetection": THINGS,
    "RfDetrForInstanceSegmentation": THINGS | detection.MASKS,
    "Deimv2ForObjectDetection": deim.SETTINGS,
}
"""Settings of a small network of each class."""

ACTIVATIONS = ("relu", "silu", "quick_gelu")
"""Values that are tried for settings with a text that are not in `OF_TEXTS`."""

OF_TEXTS: Mapping[str, tuple[str, ...]] = {
    "depth_estimation_type": ("relative", "metric"),
    "encoder_fuse_op": ("sum", "cat"),
    "decoder_method": ("default", "discrete"),
    "problem_type": ("regression", "single_label_classification", "multi_label_classification"),
    "_attn_implementation": ("eager", "sdpa"),
    "attn_implementation": ("eager", "sdpa"),
    "rope_type": ("default", "linear", "dynamic"),
    "encoder_type": ("hybrid", "none"),
}
"""Values that are tried for settings with a text that is no activation."""

NAMES = {
    *("id2label", "label2id", "model_type", "architectures", "transformers_version"),
    *("dtype", "torch_dtype", "_name_or_path"),
}
"""Settings that are names or the dtype of stored numbers. Other tests cover them."""


@dataclass(frozen=True)
class Change:
    """Another value of a setting.

    `path` has the names of the parts of the configuration around the setting, and its own name.
    """

    kind: str
    path: tuple[str, ...]
    value: Any

    @property
    def name(self) -> str:
        """The name of the setting, with the parts of the configuration around it."""
        return ".".join(self.path)

    def __str__(self) -> str:
        return f"{self.kind}-{self.name}={json.dumps(self.value)}"


@dataclass(frozen=True)
class LibraryNetwork:
    """A network that a library builds from settings, with outputs for one picture or text."""

    settings: Settings
    tensors: dict[str, torch.Tensor]
    outputs: Arrays

    @cached_property
    def digest(self) -> str:
        """The digest of the tensors."""
        return digest({name: value.numpy() for name, value in self.tensors.items()})

    def write(self, folder: Path) -> None:
        """Write the folder that the library saves."""
        folder.mkdir(parents=True)
        shared = {key: value.contiguous().clone() for key, value in self.tensors.items()}
        save_file(shared, folder / "model.safetensors", {"format": "pt"})
        (folder / "config.json").write_text(json.dumps(self.settings))


def other_values(name: str, value: Any) -> Iterator[Any]:
    """Yield other values of a setting."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from dict.fromkeys((2 * value or 2, value + 1))
    elif isinstance(value, float):
        yield 2 * value + 0.1
    elif isinstance(value, str):
        yield from (text for text in OF_TEXTS.get(name, ACTIVATIONS) if text != value)
    elif isinstance(value, list | tuple):
        yield [*value][::-1]
        yield from ([*value[:-1], last] for last in other_values(name, value[-1]) if value)
    elif value is None:
        yield from OF_TEXTS.get(name, (True, 1, 0.5, [2, 1], "relu"))


def settings_of(kind: str) -> Settings:
    """Return all settings of a class's small network, as they are written to its `config.json`."""
    return json.loads(json.dumps(_build_config(kind, BASES[kind]).to_dict(), default=str))


def _build_config(kind: str, settings: Settings) -> Any:
    """Return a configuration of a class."""
    return getattr(transformers, kind).config_class(**deepcopy(settings))


def changes(kind: str) -> Iterator[Change]:
    """Yield every setting of a class with every other value."""
    yield from _changes(kind, (), settings_of(kind))


def _changes(kind: str, path: tuple[str, ...], settings: Settings) -> Iterator[Change]:
    for name, value in settings.items():
        if isinstance(value, dict) and name not in NAMES:
            yield from _changes(kind, (*path, name), value)
        elif name not in NAMES:
            yield from (Change(kind, (*path, name), other) for other in other_values(name, value))


def apply_change(change: Change) -> Settings:
    """Return the settings of a class with the change applied."""
    settings = settings_of(change.kind)
    inner = settings
    for part in change.path[:-1]:
        inner = inner[part]
    inner[change.path[-1]] = change.value
    return settings


@cache
def base_network(kind: str) -> LibraryNetwork:
    """Return the small network of a class without a change."""
    network = run_network(kind, settings_of(kind))
    assert network is not None
    return network


IMPOSSIBLE = (
    *(StrictDataclassError, ValueError, TypeError, KeyError, IndexError, AttributeError),
    *(RuntimeError, ZeroDivisionError, AssertionError, NotImplementedError, ImportError),
)
"""What transformers raises for settings with which it cannot build a network."""


def run_network(kind: str, settings: Settings) -> LibraryNetwork | None:
    """Build and run transformers' network with these settings, or return None if it raises."""
    with suppress(*IMPOSSIBLE):
        config = transformers.AutoConfig.for_model(settings["model_type"]).from_dict(
            deepcopy(settings)
        )
        model = getattr(transformers, kind)(config).eval()
        fill(model)
        with torch.no_grad():
            output = model(**inputs_of(CLASSES[kind], model.config.to_dict()))
        outputs = {
            name: value[0].numpy() if len(value) == 1 else value.numpy()
            for name, value in output.items()
            if isinstance(value, torch.Tensor)
            and (name != "pooler_output" or not CLASSES[kind].adds_pooler)
        }
        tied_keys = getattr(model, "all_tied_weights_keys", None) or {}
        tensors = {key: value for key, value in model.state_dict().items() if key not in tied_keys}
        return LibraryNetwork(settings | {"architectures": [kind]}, tensors, outputs)
    return None


def fill(model: Any) -> None:
    """Set every tensor to seeded numbers that affect the output."""
    with torch.no_grad():
        statistics = [item for item in model.named_buffers() if "running_" in item[0]]
        for name, value in [*model.named_parameters(), *statistics]:
            rng = torch.Generator().manual_seed(crc32(name.encode()))
            noise = torch.randn(value.shape, generator=rng)
            if name.endswith("running_var"):
                value.copy_(0.5 + torch.rand(value.shape, generator=rng))
            elif "reference_point" in name:
                value.copy_(0.5 * noise)
            elif value.ndim <= 1 or "grn" in name:
                is_scale = name.endswith("weight") or "gamma" in name or "lambda" in name
                value.copy_(is_scale + 0.2 * noise)
            else:
                value.copy_(noise / value[0].numel() ** 0.5)


def inputs_of(kind: TransformersClass, settings: Settings) -> dict[str, torch.Tensor]:
    """Return a picture, a text, or both, as the class needs them."""
    tensors = {}
    text_settings = settings.get("text_config", settings)
    if "vocab_size" in text_settings:
        length, vocabulary = text_settings["max_position_embeddings"], text_settings["vocab_size"]
        end = text_settings.get("eos_token_id")
        ids = (torch.arange(length) * 7) % max(2, vocabulary - 5)
        end = end if isinstance(end, int) and 2 < end < vocabulary else vocabulary - 1
        ids[length // 2 :] = end
        tensors["input_ids"] = ids[None]
        if kind.model_type.startswith("tips"):
            ids[-2:] = 0
            tensors["attention_mask"] = (ids != 0).long()[None]
    if kind.model_type.startswith("siglip2"):
        tensors |= patches(settings.get("vision_config", settings))
    elif "vocab_size" not in settings:
        rng = torch.Generator().manual_seed(9)
        tensors["pixel_values"] = torch.randn((1, 3, *sides(settings)), generator=rng)
    return tensors


def patches(settings: Settings) -> dict[str, torch.Tensor]:
    """Return a picture of 2 x 5 patches with two patches of padding, in the format of SigLIP 2."""
    rng = torch.Generator().manual_seed(9)
    pixels = 3 * settings["patch_size"] ** 2
    return {
        "pixel_values": torch.randn((1, 12, pixels), generator=rng),
        "pixel_attention_mask": (torch.arange(12) < 10).int()[None],
        "spatial_shapes": torch.tensor([[2, 5]]),
    }


def sides(settings: Settings) -> tuple[int, int]:
    """Return the height and width of a picture that the network accepts.

    With learned positions it is the size of those.
    """
    vision_settings = settings.get("vision_config") or settings.get("backbone_config") or settings
    size = vision_settings.get("image_size", 32)
    if vision_settings.get("model_type") in (
        "dinov3_vit",
        "dinov3_convnext",
        "convnext",
        "convnextv2",
    ):
        return (64, 96)
    size = size if isinstance(size, int) else size[0]
    multiple = vision_settings.get("num_windows", 1) * vision_settings.get("patch_size", 1)
    size = max(size // multiple, 1) * multiple if "num_windows" in vision_settings else size
    return (size, size)


def numpy_inputs(kind: str, case: LibraryNetwork) -> dict[str, np.ndarray]:
    """Return the inputs of a network, without a batch axis."""
    tensors = inputs_of(CLASSES[kind], case.settings)
    return {name: value[0].numpy() for name, value in tensors.items()}
