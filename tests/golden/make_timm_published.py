"""Write `timm_published.json`: the settings in timm (1.0.31) of models with an alias in the zoo.

Run this program in an environment with timm and the zoo. Nothing is downloaded, and no weights are
allocated.
"""

import json
from pathlib import Path

import timm
import torch
from timm.models import is_model

import zoo


def read_settings(name: str) -> dict[str, object]:
    """Return the sizes and settings of a model of timm."""
    with torch.device("meta"):
        model = timm.create_model(name)
    pretrained = model.pretrained_cfg
    blocks, sizes_of_kind = find_blocks(model)
    first = blocks[0]
    hidden = getattr(first.mlp, "fc1", None) or first.mlp.fc1_g
    norm = first.norm1 if hasattr(first, "norm1") else first.norm
    act = getattr(first.mlp, "act", None)
    return sizes_of_kind | {
        "hidden": len(hidden.weight),
        "activation": type(act).__name__.lower().replace("gelutanh", "gelu_tanh"),
        "norm_eps": norm.eps,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "classes": pretrained["num_classes"],
        "size": pretrained["input_size"][1:],
        **{key: pretrained[key] for key in ("mean", "std", "interpolation", "crop_pct")},
    }


def find_blocks(model: torch.nn.Module) -> tuple[list[torch.nn.Module], dict[str, object]]:
    """Return the blocks of a model, and the sizes that its kind of network has."""
    if hasattr(model, "blocks"):
        first, patch = model.blocks[0], model.patch_embed.patch_size[0]
        sizes = {"dim": model.embed_dim, "depth": len(model.blocks), "patch_size": patch}
        return [*model.blocks], sizes | {"heads": first.attn.num_heads}
    stages = [*(model.stages if hasattr(model, "stages") else model.layers)]
    blocks = [block for stage in stages for block in stage.blocks]
    depths = {"depths": [len(stage.blocks) for stage in stages]}
    if hasattr(model, "stages"):
        return blocks, depths | {"dims": [stage.blocks[0].conv_dw.out_channels for stage in stages]}
    attentions = [stage.blocks[0].attn for stage in stages]
    return blocks, depths | {
        "embed": model.embed_dim,
        "heads": [attention.num_heads for attention in attentions],
        "window": max(attention.window_size[0] for attention in attentions),
        "pretrained": [attention.pretrained_window_size[0] for attention in attentions],
    }


names = {
    alias.removeprefix("timm/")
    for name in zoo.list_models()
    for alias in zoo.info(name).aliases
    if alias.startswith("timm/")
}
settings_by_name = {
    name: read_settings(name) for name in sorted(names) if is_model(name.partition(".")[0])
}
rows = (
    f" {json.dumps(name)}: {json.dumps(settings)}" for name, settings in settings_by_name.items()
)
path = Path(__file__).with_name("timm_published.json")
path.write_text("{\n" + ",\n".join(rows) + "\n}\n")
