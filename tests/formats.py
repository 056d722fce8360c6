"""A small network of every family in every format, each file written by whose format it is.

timm is not installed here: its layouts (1.0.31) are written down below.
"""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import jax
import numpy as np
from safetensors.numpy import save_file

import zoo
from tests.references import (
    clip,
    convnext,
    depth_anything,
    dinov2,
    dinov3,
    eomt,
    siglip2,
    swin,
    tips,
    vit,
)
from tests.references.running import Values, equimo_model, file_state
from tests.seeded import leaves_of, nano, state_of, values_of
from tests.synthetic import save_pth
from weights.initializers import Float32
from weights.mapping import Naming
from weights.namings import convnext_names, swin_names, timm_names
from zoo.architectures.architecture import Config
from zoo.architectures.convnext.convnext_config import ConvNeXtConfig
from zoo.architectures.entry import ModelInfo
from zoo.architectures.vit.vit_config import ViTConfig

NANO = ViTConfig(dim=32, depth=2, heads=2, hidden=128, untied_norms=True)
"""The network of `golden/equimo_v1_dinov3_nano.tar.lz4`."""

NAMES = (
    *("dinov3_vits16", "dinov3_vith16plus", "dinov3_vit7b16", "dinov3_convnext_tiny"),
    *("dinov2_vits14", "dinov2_vits14_reg", "dinov2_vitg14_reg", "tips_vits14_hr", "eupe_vitt16"),
    *("siglip2_vitb16_224", "vit_tiny_patch16_224", "vit5_small", "convnext_tiny"),
    *(
        "deit_tiny_distilled_patch16_224",
        "swinv2_base_window12to16_192to256",
        "convnextv2_atto",
        "depth_anything_v2_vits",
        "eomt_dinov3_coco_panoptic_small_640",
    ),
    *("dinov2_vits14_ade20k_ms", "tipsv2_vitb14", "clip_vitb32"),
)
"""One of each family, and those whose tensors are others than its."""

TRANSFORMERS = {
    "clip": clip,
    "depth_anything": depth_anything,
    "dinov2": dinov2,
    "dinov3": dinov3,
    "eomt": eomt,
    "siglip2": siglip2,
    "swinv2": swin,
    "tipsv2": tips,
    "vit": vit,
    "deit": vit,
}

ORIGINALS = ("meta", "google", "original")
"""Formats whose files are tables of tensors as PyTorch or numpy writes them."""


def small(name: str) -> ModelInfo:
    """An entry of the registry for a small network."""
    entry = zoo.info(name)
    published = tuple(replace(each, config=nano(each.config)) for each in entry.published)
    return replace(entry, config=nano(entry.config), published=published)


@cache
def leaves(name: str, who: str) -> dict[str, Float32]:
    """Seeded leaves of the network whose weights somebody publishes.

    Where it is that of the first who publishes them, they are what that file gives: with
    DINOv3's masks in its biases. An author's own file has what `write` puts there.
    """
    entry = small(name)
    first, config = entry.namings[0], entry.config_for(who)
    if who in ORIGINALS and who != first.name:
        naming = next(each for each in entry.namings if each.name == who)
        return leaves_of(config, naming, state_of(config, naming, 4))
    if config != entry.config_for(first.name) and entry.family == "dinov2":
        # As timm converts Meta's: the class token has its position.
        found = leaves(name, first.name)
        token, rows = found["cls_token"], found["global_pos_embed.weight"]
        return found | {"cls_token": token + rows[:1], "global_pos_embed.weight": rows[1:]}
    if config != entry.config_for(first.name) or first.name == "huggingface":
        return values_of(config)
    return leaves_of(config, first, state_of(config, first, 4))


def equimo_settings(name: str, config: Config) -> dict:
    """What makes Equimo's network of a name as small as ours."""
    from equimo.models.vit import _VIT_REGISTRY

    many = isinstance(_VIT_REGISTRY[name][1]["num_heads"], list)
    return {
        "dim": config.dim,
        "num_heads": [config.heads] if many else config.heads,
        "depths": [config.depth],
        "mlp_ratio": config.hidden * (1.5 if config.ffn.startswith("swiglu") else 1) / config.dim,
        "img_size": (config.positions.grid if config.positions else 4) * config.patch_size,
        "num_classes": config.classes,
    }


def in_equimo(name: str, config: Config, values: Values):
    """Equimo's model with these leaves."""
    if isinstance(config, ConvNeXtConfig):
        return convnext.equimo_model(config, values)
    theirs = f"{name}_pretrain_lvd1689m" if name.startswith("dinov3") else name
    return equimo_model(theirs, values, **equimo_settings(theirs, config))


def in_transformers(name: str, config: Config, values: Values):
    """transformers' model with these leaves."""
    family = convnext if "convnext" in name else TRANSFORMERS[zoo.info(name).family]
    return family.transformers(config, values)


RENAMED = {
    "dinov3": (
        *(("storage_tokens", "reg_token"), ("ls1.gamma", "gamma_1"), ("ls2.gamma", "gamma_2")),
        *(("mlp.w1", "mlp.fc1_g"), ("mlp.w2", "mlp.fc1_x"), ("mlp.w3", "mlp.fc2")),
    ),
    "dinov2": (("register_tokens", "reg_token"), ("mlp.w12", "mlp.fc1"), ("mlp.w3", "mlp.fc2")),
}
"""Meta's names and timm's."""


def renamed(state: Values, family: str) -> dict[str, Float32]:
    out = dict(state)
    for old, new in RENAMED[family]:
        out = {key.replace(old, new): value for key, value in out.items()}
    return {key: np.ascontiguousarray(value) for key, value in out.items()}


def dinov3_by_timm(state: Values) -> dict[str, Float32]:
    """Masks in the biases, and those in parts; no periods, and neither mask nor unused norm."""
    out = {}
    for key, value in state.items():
        if key.endswith("qkv.bias"):
            query, _, third = np.split(value * state[f"{key}_mask"], 3)
            out[key.replace("qkv.bias", "q_bias")] = query
            out[key.replace("qkv.bias", "v_bias")] = third
        elif not re.match(r"mask_token|rope_embed|local_cls_norm|.*bias_mask$", key):
            out[key] = value
    return renamed(out, "dinov3")


def dinov2_by_timm(state: Values) -> dict[str, Float32]:
    """No mask token; with registers the class token has its position."""
    out = {key: value for key, value in state.items() if key != "mask_token"}
    if "register_tokens" in state:
        out["cls_token"] = state["cls_token"] + state["pos_embed"][:, :1]
        out["pos_embed"] = state["pos_embed"][:, 1:]
    return renamed(out, "dinov2")


def timm_state(name: str, naming: Naming = timm_names.VIT) -> dict[str, Float32]:
    """The tensors of timm's file."""
    entry = small(name)
    if "convnext" in name:
        return convnext.timm_state(leaves(name, "timm"), naming is convnext_names.TIMM_CONVOLVED)
    if entry.family == "swinv2":
        return file_state(swin_names.TIMM, leaves(name, "timm"))
    if entry.family == "deit":
        return file_state(timm_names.DISTILLED_VIT, leaves(name, "timm"))
    if entry.family in ("vit", "siglip2"):
        return file_state(timm_names.VIT, leaves(name, "timm"))
    state = state_of(entry.config, entry.namings[0], 4)
    return (dinov3_by_timm if entry.family == "dinov3" else dinov2_by_timm)(state)


def write(folder: Path, name: str, naming: Naming) -> Path:
    """The file of a small network in a format, by the library that it belongs to."""
    from equimo.io import save_model

    who, config = naming.name, small(name).config_for(naming.name)
    path = folder / {"equimo": "w.tar.lz4", "google": "w.npz", "huggingface": "hf"}.get(who, "w")
    if who in ORIGINALS:
        is_depth = zoo.info(name).family == "depth_anything"
        own = depth_anything.authors_state(leaves(name, who)) if is_depth else None
        state = own or state_of(config, naming, 4)
        if who == "google":
            np.savez_compressed(path, **state)
        else:
            save_pth(path, state)
    elif who == "equimo":
        with jax.numpy_dtype_promotion("standard"):
            save_model(path, in_equimo(name, config, leaves(name, who)), {})
    elif who == "huggingface":
        in_transformers(name, config, leaves(name, who)).save_pretrained(path)
    else:
        save_file(timm_state(name, naming), path)
    return path
