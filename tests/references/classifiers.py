"""Custom classifiers, each with the logits that PyTorch computes.

They are saved by transformers, in timm's layout (1.0.31), or in Meta's layout, which has a separate
file for the classifier.

timm's `Eva` (DINOv3) takes the mean of the patches unless `global_pool` is `token`. The input of
Meta's classifiers is described in `hub/classifiers.py` of facebookresearch/dinov2 and /dinov3.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.numpy import load_file, save_file

import zoo
from tests.formats import dinov2_by_timm, dinov3_by_timm, in_transformers
from tests.references.running import Values
from tests.seeded import leaves_of, nano, state_of
from tests.synthetic import save_pth
from zoo.architectures.architecture import Config

CLASSES = ("kitten", "Hündchen", "a <fish>")
"""Names of the classes of the seeded networks."""
BREEDS = (*CLASSES, "Maine Coon", "a cat, asleep", "Siam", "tabby")
"""Names of the classes of the networks that `trained` returns."""

Logits = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class ClassifierCheckpoint:
    """A checkpoint: the path for `--weights`, and a function from pictures to logits.

    `size` is a height and width that the network accepts.
    """

    path: Path
    logits: Logits
    size: tuple[int, int]


def seeded(kind: str, settings: dict[str, Any]) -> Any:
    """Return a seeded network of transformers in which every parameter affects the output.

    `kind` is the name of its class. `settings` are arguments of the class's configuration.
    """
    torch.manual_seed(7)
    model_class = getattr(transformers, kind)
    model = model_class(
        model_class.config_class(**{"id2label": dict(enumerate(CLASSES)), **settings})
    ).eval()
    with torch.no_grad():
        for name, value in model.named_parameters():
            noise = torch.randn_like(value)
            if value.ndim == 1 or "grn" in name:
                value.add_(0.2 * noise)
            else:
                value.copy_(noise / value[0].numel() ** 0.5)
    return model


def saved(kind: str, size: tuple[int, int], folder: Path, **settings: Any) -> ClassifierCheckpoint:
    """Save a seeded classifier by `save_pretrained`."""
    is_native_size = settings.get("image_size") == [*size]
    options = {"interpolate_pos_encoding": True} if kind in ASKING and not is_native_size else {}
    model = seeded(kind, settings)
    model.save_pretrained(folder)
    return ClassifierCheckpoint(folder, lambda pictures: model(pictures, **options).logits, size)


def trained(kind: str, folder: Path) -> Any:
    """Train the classifier `OWN[kind]` for a few steps on `BREEDS` in place of its classes.

    The trained model is saved in the folder and returned.
    """
    class_names = {
        "id2label": dict(enumerate(BREEDS)),
        "label2id": {x: n for n, x in enumerate(BREEDS)},
    }
    OWN[kind](folder)
    torch.manual_seed(2)
    model = transformers.AutoModelForImageClassification.from_pretrained(
        folder, **class_names, ignore_mismatched_sizes=True
    ).train()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    for _ in range(3):
        pictures, labels = torch.randn(4, 3, 64, 64), torch.randint(len(BREEDS), (4,))
        options = {"interpolate_pos_encoding": True} if type(model).__name__ in ASKING else {}
        model(pictures, labels=labels, **options).loss.backward()
        optimizer.step()
    model.eval().save_pretrained(folder)
    return model


ASKING = (
    *("ViTForImageClassification", "SiglipForImageClassification"),
    *("DeiTForImageClassification", "DeiTForImageClassificationWithTeacher"),
)
"""Classes that accept pictures of other sizes only with `interpolate_pos_encoding=True`."""


def head_of(width: int, classes: int = len(CLASSES)) -> Values:
    """Return random parameters of a linear layer."""
    rng = np.random.default_rng(8)
    weight = rng.standard_normal((classes, width), np.float32) / np.float32(width**0.5)
    return {"weight": weight, "bias": rng.standard_normal(classes, np.float32)}


def on_features(
    model: Any, head: Values, layers: int, mean: bool, pictures: torch.Tensor
) -> torch.Tensor:
    """Return the logits of a linear layer on the normed class tokens of the last `layers` states.

    With `mean`, the layer also takes the mean of the patches of the last state.
    """
    outputs = model(pictures, output_hidden_states=True)
    norm = model.norm if hasattr(model, "norm") else model.layernorm
    prefix = 1 + getattr(model.config, "num_register_tokens", 0)
    states = [norm(state) for state in outputs.hidden_states[1:]]
    parts = [state[:, 0] for state in states[len(states) - layers :]]
    if mean:
        parts.append(states[-1][:, prefix:].mean(dim=1))
    weight, bias = map(torch.from_numpy, (head["weight"], head["bias"]))
    return torch.cat(parts, dim=1) @ weight.T + bias


def backbone(name: str, depth: int | None) -> tuple[Config, Values, Any]:
    """Return the configuration of a model, Meta's tensors and transformers' network with them.

    With a `depth` the network is a small one with that many blocks.
    """
    config = zoo.info(name).config
    if depth is not None:
        config = replace(nano(config), depth=depth)
    naming = zoo.info(name).namings[0]
    state = state_of(config, naming, 4)
    return config, state, in_transformers(name, config, leaves_of(config, naming, state))


def beside_backbone(
    name: str,
    head_name: str,
    layers: int,
    size: tuple[int, int],
    folder: Path,
    together: bool = False,
) -> ClassifierCheckpoint:
    """Save Meta's classifier in a file beside that of its backbone.

    With `together`, one file holds both. That file does not state the number of heads, so the
    backbone has the published size.

    `head_name` is the stem of the classifier's file, and `layers` the number of blocks whose class
    tokens the classifier takes.
    """
    config, state, model = backbone(name, None if together else 5)
    head = head_of((layers + 1) * config.dim)
    folder.mkdir()
    path = folder / f"{head_name}.pth"
    if together:
        keyed = {f"backbone.{key}": value for key, value in state.items()}
        save_pth(path, keyed | {f"linear_head.{key}": value for key, value in head.items()})
    else:
        backbone_name = head_name.partition("_linear")[0].removesuffix("_imagenet1k")
        save_pth(folder / f"{backbone_name}_pretrain.pth", state)
        save_pth(path, head)
        # Meta publishes no settings, but the zoo cannot know the number of heads of this size.
        settings = {"num_attention_heads": config.heads, "id2label": dict(enumerate(CLASSES))}
        (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    return ClassifierCheckpoint(path, partial(on_features, model, head, layers, True), size)


PICTURES = {
    **{"input_size": [3, 32, 48], "interpolation": "bilinear", "crop_pct": 1.0},
    **{"crop_mode": "squash", "mean": [0.4, 0.5, 0.6], "std": [0.2, 0.3, 0.4]},
}
"""The `pretrained_cfg` of timm, which describes the preprocessing."""


def write_timm_folder(tensors: Values, head: Values, folder: Path, **settings: Any) -> Path:
    """Write the folder that timm's `save_for_hf` would write."""
    folder.mkdir()
    tensors = {**tensors, **{f"head.{key}": value for key, value in head.items()}}
    save_file(tensors, folder / "model.safetensors")
    config = {"label_names": CLASSES, "pretrained_cfg": PICTURES, **settings}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def dinov3_by(
    name: str, layers: int, folder: Path, depth: int | None = 2, **settings: Any
) -> ClassifierCheckpoint:
    """Save a linear layer on DINOv3 in timm's layout, whose files have no rotary periods.

    With `layers` = 1 the layer takes the class token, and with 0 the mean of the patches.
    """
    config, state, model = backbone(name, depth)
    quarter = config.head_dim // 4
    model.rope_embeddings.inv_freq = 100.0 ** -(torch.arange(quarter) / quarter)
    head = head_of(config.dim)
    heads = {"num_attention_heads": config.heads}
    path = write_timm_folder(dinov3_by_timm(state), head, folder, **heads, **settings)
    return ClassifierCheckpoint(
        path, partial(on_features, model, head, layers, not layers), (32, 48)
    )


def dinov2_by(name: str, size: tuple[int, int], folder: Path) -> ClassifierCheckpoint:
    """Save a linear layer on the class token of DINOv2 in timm's layout."""
    config, state, model = backbone(name, 2)
    head = head_of(config.dim)
    path = write_timm_folder(dinov2_by_timm(state), head, folder, num_attention_heads=config.heads)
    return ClassifierCheckpoint(path, partial(on_features, model, head, 1, False), size)


def wrapped(make: Callable[[Path], ClassifierCheckpoint], folder: Path) -> ClassifierCheckpoint:
    """Save a network of timm as transformers' `TimmWrapperForImageClassification` saves it.

    `make` writes the network in timm's layout.
    """
    checkpoint = make(folder)
    tensors = load_file(folder / "model.safetensors")
    save_file({f"timm_model.{k}": v for k, v in tensors.items()}, folder / "model.safetensors")
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config |= {
        "architecture": "vit_small_patch14_reg4_dinov2",
        "architectures": ["TimmWrapperForImageClassification"],
        "do_pooling": True,
        "model_args": {"num_heads": config.pop("num_attention_heads")},
        "model_type": "timm_wrapper",
        "num_classes": len(CLASSES),
    }
    path.write_text(json.dumps(config), encoding="utf-8")
    return checkpoint


SIZED = {
    **{"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4},
    **{"image_size": 40, "patch_size": 8},
}
PLAIN = {**SIZED, "intermediate_size": 80}
VIT = partial(saved, "ViTForImageClassification")
STAGES = {"depths": [1, 2, 1, 1], "hidden_sizes": [16, 24, 32, 40]}

OWN: dict[str, Callable[[Path], ClassifierCheckpoint]] = {
    "vit": partial(VIT, (32, 56), **PLAIN),
    "vit without biases": partial(VIT, (32, 56), **PLAIN, qkv_bias=False),
    "vit on no square": partial(VIT, (32, 56), **PLAIN | {"image_size": [32, 56]}),
    "vit on as many places as a square has": partial(
        VIT, (16, 64), **PLAIN | {"image_size": [16, 64]}
    ),
    "deit": partial(saved, "DeiTForImageClassification", (32, 56), **PLAIN),
    "deit with two heads": partial(
        saved, "DeiTForImageClassificationWithTeacher", (32, 56), **PLAIN
    ),
    "vit of a known size": partial(
        *(VIT, (224, 160)),
        **{"hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768},
    ),
    "dinov2": partial(saved, "Dinov2ForImageClassification", (48, 32), **SIZED, mlp_ratio=3),
    "dinov2 with registers": partial(
        *(saved, "Dinov2WithRegistersForImageClassification", (48, 32)),
        **SIZED,
        num_register_tokens=3,
    ),
    "dinov2, gated": partial(
        saved, "Dinov2ForImageClassification", (40, 40), **SIZED, use_swiglu_ffn=True
    ),
    "siglip": partial(saved, "SiglipForImageClassification", (32, 56), vision_config=PLAIN),
    "siglip without its pooling": partial(
        *(saved, "SiglipForImageClassification", (32, 56)),
        vision_config={**PLAIN, "vision_use_head": False},
    ),
    "clip": partial(
        *(saved, "CLIPForImageClassification", (40, 40)),
        vision_config=PLAIN,
        text_config={"hidden_size": 32, "num_hidden_layers": 1, "vocab_size": 50},
    ),
    "dinov2 without a mask token": partial(
        *(saved, "Dinov2ForImageClassification", (48, 32)),
        **SIZED,
        use_mask_token=False,
    ),
    "convnext": partial(saved, "ConvNextForImageClassification", (96, 64), **STAGES),
    "convnextv2": partial(saved, "ConvNextV2ForImageClassification", (96, 64), **STAGES),
    "swinv2": partial(
        *(saved, "Swinv2ForImageClassification", (64, 96)),
        **{"embed_dim": 12, "depths": [1, 2, 2, 1], "num_heads": [2, 3, 4, 6], "window_size": 3},
        **{"image_size": [64, 96], "mlp_ratio": 3.0, "pretrained_window_sizes": [2, 0, 3, 0]},
    ),
    "meta, one layer": partial(
        beside_backbone, "dinov2_vits14_reg", "dinov2_vits14_reg4_linear_head", 1, (70, 98)
    ),
    "meta, four layers": partial(
        beside_backbone, "dinov2_vits14", "dinov2_vits14_linear4_head", 4, (56, 56)
    ),
    "meta, dinov3": partial(
        beside_backbone, "dinov3_vit7b16", "dinov3_vit7b16_imagenet1k_linear_head", 1, (32, 48)
    ),
    "meta, one file": partial(
        beside_backbone, "dinov2_vits14_reg", "finetuned", 4, (70, 98), together=True
    ),
    "timm's dinov3": partial(dinov3_by, "dinov3_vits16", 0),
    "timm's dinov3, gated, by token": partial(
        dinov3_by, "dinov3_vith16plus", 1, global_pool="token"
    ),
    "timm's dinov2 in transformers": partial(
        wrapped, partial(dinov2_by, "dinov2_vits14_reg", (70, 98))
    ),
    "timm's dinov2": partial(dinov2_by, "dinov2_vits14_reg", (70, 98)),
}
"""Functions that save a custom classifier in a folder, by the classifier's name."""
