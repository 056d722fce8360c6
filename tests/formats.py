"""A small network of every family in every format. Each file is written by the library that the
format belongs to.

timm is not installed here: the functions below write its layouts (1.0.31).
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
from tests.seeded import ONE_OF_EACH, leaves_of, nano, state_of, values_of
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
    *(name for name in ONE_OF_EACH if name not in ("vit_digits", "rf_detr_nano", "deimv2_s")),
    *("dinov3_vith16plus", "dinov3_vit7b16", "dinov2_vitg14_reg", "convnext_tiny"),
    *("convnextv2_atto", "tipsv2_vitb14"),
)
"""Models whose files several libraries write: most of `ONE_OF_EACH`, and models whose tensors
differ from those of their family."""

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
    """Return a model's entry with small networks in place of the published ones."""
    entry = zoo.info(name)
    published = tuple(
        replace(publication, config=nano(publication.config)) for publication in entry.published
    )
    return replace(entry, config=nano(entry.config), published=published)


@cache
def leaves(name: str, who: str) -> dict[str, Float32]:
    """Return seeded leaves of the network that a publisher's file has. `who` is the name of its
    naming.

    For the network of the first publisher they are what its file gives, with DINOv3's masks in the
    biases. For an author's own file they are those of the file that `write` writes.
    """
    entry = small(name)
    first, config = entry.namings[0], entry.config_for(who)
    if who in ORIGINALS and who != first.name:
        naming = next(naming for naming in entry.namings if naming.name == who)
        return leaves_of(config, naming, state_of(config, naming, 4))
    if config != entry.config_for(first.name) and entry.family == "dinov2":
        # timm converts Meta's file in this way: it adds the class token's position to the token.
        leaves_of_meta = leaves(name, first.name)
        token, rows = leaves_of_meta["cls_token"], leaves_of_meta["global_pos_embed.weight"]
        return leaves_of_meta | {"cls_token": token + rows[:1], "global_pos_embed.weight": rows[1:]}
    if config != entry.config_for(first.name) or first.name == "huggingface":
        return values_of(config)
    return leaves_of(config, first, state_of(config, first, 4))


def equimo_settings(name: str, config: Config) -> dict:
    """Return the settings that make Equimo's network of this name as small as ours."""
    from equimo.models.vit import _VIT_REGISTRY

    is_list = isinstance(_VIT_REGISTRY[name][1]["num_heads"], list)
    return {
        "dim": config.dim,
        "num_heads": [config.heads] if is_list else config.heads,
        "depths": [config.depth],
        "mlp_ratio": config.hidden * (1.5 if config.ffn.startswith("swiglu") else 1) / config.dim,
        "img_size": (config.positions.grid if config.positions else 4) * config.patch_size,
        "num_classes": config.classes,
    }


def in_equimo(name: str, config: Config, values: Values):
    """Return Equimo's model with these leaves."""
    if isinstance(config, ConvNeXtConfig):
        return convnext.equimo_model(config, values)
    equimo_name = f"{name}_pretrain_lvd1689m" if name.startswith("dinov3") else name
    return equimo_model(equimo_name, values, **equimo_settings(equimo_name, config))


def in_transformers(name: str, config: Config, values: Values):
    """Return transformers' model with these leaves."""
    family = convnext if "convnext" in name else TRANSFORMERS[zoo.info(name).family]
    return family.transformers(config, values)


RENAMED = {
    "dinov3": (
        *(("storage_tokens", "reg_token"), ("ls1.gamma", "gamma_1"), ("ls2.gamma", "gamma_2")),
        *(("mlp.w1", "mlp.fc1_g"), ("mlp.w2", "mlp.fc1_x"), ("mlp.w3", "mlp.fc2")),
    ),
    "dinov2": (("register_tokens", "reg_token"), ("mlp.w12", "mlp.fc1"), ("mlp.w3", "mlp.fc2")),
}
"""Pairs of Meta's name and timm's name, by family."""


def renamed(state: Values, family: str) -> dict[str, Float32]:
    """Return the tensors of Meta's file in timm's names."""
    renamed_state = dict(state)
    for old, new in RENAMED[family]:
        renamed_state = {key.replace(old, new): value for key, value in renamed_state.items()}
    return {key: np.ascontiguousarray(value) for key, value in renamed_state.items()}


def dinov3_by_timm(state: Values) -> dict[str, Float32]:
    """Return the tensors of Meta's file as timm writes them: the masks are multiplied into the
    biases, which are split by projection. The rotary periods, the mask token and an unused norm are
    left out."""
    tensors = {}
    for key, value in state.items():
        if key.endswith("qkv.bias"):
            query, _, bias_of_values = np.split(value * state[f"{key}_mask"], 3)
            tensors[key.replace("qkv.bias", "q_bias")] = query
            tensors[key.replace("qkv.bias", "v_bias")] = bias_of_values
        elif not re.match(r"mask_token|rope_embed|local_cls_norm|.*bias_mask$", key):
            tensors[key] = value
    return renamed(tensors, "dinov3")


def dinov2_by_timm(state: Values) -> dict[str, Float32]:
    """Return the tensors of Meta's file as timm writes them: without the mask token, and with
    registers the class token contains its position."""
    tensors = {key: value for key, value in state.items() if key != "mask_token"}
    if "register_tokens" in state:
        tensors["cls_token"] = state["cls_token"] + state["pos_embed"][:, :1]
        tensors["pos_embed"] = state["pos_embed"][:, 1:]
    return renamed(tensors, "dinov2")


def timm_state(name: str, naming: Naming = timm_names.VIT) -> dict[str, Float32]:
    """Return the tensors of timm's file of a small network."""
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
    """Write the file of a small network in the format of a naming, with the library of that format.
    Return its path."""
    from equimo.io import save_model

    who, config = naming.name, small(name).config_for(naming.name)
    path = folder / {"equimo": "w.tar.lz4", "google": "w.npz", "huggingface": "hf"}.get(who, "w")
    if who in ORIGINALS:
        is_depth = zoo.info(name).family == "depth_anything"
        authors_state = depth_anything.authors_state(leaves(name, who)) if is_depth else None
        state = authors_state or state_of(config, naming, 4)
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
