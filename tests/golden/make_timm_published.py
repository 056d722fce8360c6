"""Write `timm_published.json`: what timm (1.0.31) says of the models that the zoo knows by its
names. Run it where timm is, beside the zoo; nothing is downloaded, and no weights are allocated.
"""

import json
from pathlib import Path

import timm
import torch
from timm.models import is_model

import zoo


def said_of(name: str) -> dict[str, object]:
    with torch.device("meta"):
        model = timm.create_model(name)
    said = model.pretrained_cfg
    blocks, own = of_blocks(model)
    first = blocks[0]
    hidden = getattr(first.mlp, "fc1", None) or first.mlp.fc1_g
    norm = first.norm1 if hasattr(first, "norm1") else first.norm
    act = getattr(first.mlp, "act", None)
    return own | {
        "hidden": len(hidden.weight),
        "activation": type(act).__name__.lower().replace("gelutanh", "gelu_tanh"),
        "norm_eps": norm.eps,
        "parameters": sum(each.numel() for each in model.parameters()),
        "classes": said["num_classes"],
        "size": said["input_size"][1:],
        **{key: said[key] for key in ("mean", "std", "interpolation", "crop_pct")},
    }


def of_blocks(model: torch.nn.Module) -> tuple[list[torch.nn.Module], dict[str, object]]:
    """The blocks, and what only a kind of network has."""
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
        "heads": [each.num_heads for each in attentions],
        "window": max(each.window_size[0] for each in attentions),
        "pretrained": [each.pretrained_window_size[0] for each in attentions],
    }


names = {
    alias.removeprefix("timm/")
    for name in zoo.list_models()
    for alias in zoo.info(name).aliases
    if alias.startswith("timm/")
}
found = {name: said_of(name) for name in sorted(names) if is_model(name.partition(".")[0])}
rows = (f" {json.dumps(name)}: {json.dumps(said)}" for name, said in found.items())
path = Path(__file__).with_name("timm_published.json")
path.write_text("{\n" + ",\n".join(rows) + "\n}\n")
