"""Write `published.json`: what the publishers' own packages say of the models of the zoo: Equimo
(1.1.0), open_clip (3.3.0) and rfdetr (1.11.2). Run it where they are, beside the zoo; only their
tables are read. A number has the path that it has in an entry of the zoo.

    python make_published.py FOLDER_OF_PACKAGES
"""

import inspect
import json
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from equimo.models import vit

import zoo
from zoo.registry.lookup import MODELS

Row = tuple[str, dict[str, object]]


def of_equimo() -> Iterator[Row]:
    usual = {
        name: each.default
        for name, each in inspect.signature(vit.VisionTransformer).parameters.items()
    }
    for name, parts in vit._VIT_REGISTRY.items():
        said = usual | parts[0] | parts[1]
        found = {
            "dim": said["dim"],
            "depth": sum(said["depths"]),
            "heads": max(np.atleast_1d(said["num_heads"]).tolist()),
            "patch_size": said["patch_size"],
            "registers": said["reg_tokens"],
            "cls_token": said["class_token"],
            "mask_token": said["use_mask_token"],
            "classes": said["num_classes"],
            "layer_scale": said["init_values"],
            "norm_eps": said["eps"],
            # Its 7B model has biases that the published file has not.
            "qkv_bias": said["qkv_bias"] and "vit7b" not in name,
            "qk_norm": said["qk_norm"],
            "untied_norms": said["untie_global_and_local_cls_norm"],
        }
        if said["ffn_layer"] == "mlp":
            found["hidden"] = round(said["dim"] * said["mlp_ratio"])
            found["activation"] = {"gelu": "gelu_tanh", "exactgelu": "gelu"}[said["act_layer"]]
        yield name, {f"config.{key}": value for key, value in found.items()}


def of_open_clip(folder: Path) -> Iterator[Row]:
    """Its towers for pictures and for texts, which the zoo has one by one."""
    for name, entry in MODELS.items():
        if entry.family not in ("clip", "siglip2"):
            continue
        path = folder / "open_clip/model_configs" / f"{in_open_clip(name)}.json"
        said = json.loads(path.read_text())
        seen, read = said["vision_cfg"], said["text_cfg"]
        found: dict[str, object] = {"preprocessing.size": [seen["image_size"]] * 2}
        if "layers" in seen:
            heads = seen["width"] // seen.get("head_width", 64)
            found |= {
                "config.dim": seen["width"],
                "config.depth": seen["layers"],
                "config.heads": heads,
                "config.patch_size": seen["patch_size"],
                "config.projection": said["embed_dim"],
            }
        yield name, found
        words = {
            "dim": read["width"],
            "depth": read["layers"],
            "heads": read["heads"],
            "hidden": int(read["width"] * read.get("mlp_ratio", 4)),
            "projection": said["embed_dim"],
            "tokens": read["context_length"],
            "vocabulary": read["vocab_size"],
            "causal": not read.get("no_causal_mask", False),
            "norm_eps": read.get("norm_kwargs", {}).get("eps", 1e-5),
        }
        yield f"{name}_text", {f"config.{key}": value for key, value in words.items()}


def in_open_clip(name: str) -> str:
    family, size, *others = name.split("_")
    kind = size.removeprefix("vit")
    letter = next(
        known for known in ("giantopt", "so400m", "b", "l", "h") if kind.startswith(known)
    )
    patch = kind.removeprefix(letter)
    letter = {"giantopt": "gopt", "so400m": "SO400M"}.get(letter, letter.upper())
    if family == "siglip2":
        side = "" if others[0] == "224" else f"-{others[0]}"
        return f"ViT-{letter}-{patch}-SigLIP2{side}"
    side = "-336" if "336" in others else ""
    return f"ViT-{letter}-{patch}{side}" + ("" if "laion2b" in others else "-quickgelu")


def of_rfdetr(folder: Path) -> Iterator[Row]:
    module = runpy.run_path(str(folder / "rfdetr/config.py"))
    for name in zoo.list_models("rf_detr_*"):
        called = "".join(word.capitalize() for word in name.split("_")[2:])
        called = {"SegXlarge": "SegXLarge", "Seg2xlarge": "Seg2XLarge"}.get(called, called)
        fields = module[f"RFDETR{called}Config"].model_fields
        said = {key: field.default for key, field in fields.items()}
        yield (
            name,
            {
                "checkpoint": said["pretrain_weights"],
                "preprocessing.size": [said["resolution"]] * 2,
                "config.backbone.patch_size": said["patch_size"],
                "config.backbone.positions.grid": said["positional_encoding_size"],
                "config.windows": said["num_windows"],
                "config.layers": said["out_feature_indexes"],
                "config.decoder.dim": said["hidden_dim"],
                "config.decoder.depth": said["dec_layers"],
                "config.decoder.heads": said["sa_nheads"],
                "config.decoder.sampling_heads": said["ca_nheads"],
                "config.decoder.points": said["dec_n_points"],
                "config.queries": said["num_queries"],
                "config.groups": said["group_detr"],
            },
        )


def of_coco(folder: Path) -> dict[int, str]:
    """The names of classes by their numbers there."""
    return runpy.run_path(str(folder / "rfdetr/assets/coco_classes.py"))["COCO_CLASSES"]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    found: dict[str, dict[str, object]] = {}
    for name, said in (*of_equimo(), *of_open_clip(folder), *of_rfdetr(folder)):
        found.setdefault(name, {}).update(said)
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(said)}" for name, said in found.items())
    text = f'{{\n "coco": {json.dumps(of_coco(folder))},\n "models": {{\n{rows}\n }}\n}}\n'
    Path(__file__).with_name("published.json").write_text(text)
