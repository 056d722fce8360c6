"""Write `published.json`: the settings of the zoo's models in the packages of their publishers.

The packages are Equimo (1.1.0), open_clip (3.3.0) and rfdetr (1.11.2). Run this program in an
environment with them and the zoo; only their tables are read. The keys are paths in an entry of the
zoo.

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


def read_equimo() -> Iterator[Row]:
    """Yield the settings of Equimo's vision transformers."""
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(vit.VisionTransformer).parameters.items()
    }
    for name, parts in vit._VIT_REGISTRY.items():
        settings = defaults | parts[0] | parts[1]
        fields = {
            "dim": settings["dim"],
            "depth": sum(settings["depths"]),
            "heads": max(np.atleast_1d(settings["num_heads"]).tolist()),
            "patch_size": settings["patch_size"],
            "registers": settings["reg_tokens"],
            "cls_token": settings["class_token"],
            "mask_token": settings["use_mask_token"],
            "classes": settings["num_classes"],
            "layer_scale": settings["init_values"],
            "norm_eps": settings["eps"],
            # Equimo's 7B model has biases, which the published file does not have.
            "qkv_bias": settings["qkv_bias"] and "vit7b" not in name,
            "qk_norm": settings["qk_norm"],
            "untied_norms": settings["untie_global_and_local_cls_norm"],
        }
        if settings["ffn_layer"] == "mlp":
            fields["hidden"] = round(settings["dim"] * settings["mlp_ratio"])
            fields["activation"] = {"gelu": "gelu_tanh", "exactgelu": "gelu"}[settings["act_layer"]]
        yield name, {f"config.{key}": value for key, value in fields.items()}


def read_open_clip(folder: Path) -> Iterator[Row]:
    """Yield the settings of open_clip's towers for pictures and texts, as separate models."""
    for name, entry in MODELS.items():
        if entry.family not in ("clip", "siglip2"):
            continue
        path = folder / "open_clip/model_configs" / f"{to_open_clip_name(name)}.json"
        settings = json.loads(path.read_text())
        vision, text = settings["vision_cfg"], settings["text_cfg"]
        fields: dict[str, object] = {"preprocessing.size": [vision["image_size"]] * 2}
        if "layers" in vision:
            heads = vision["width"] // vision.get("head_width", 64)
            fields |= {
                "config.dim": vision["width"],
                "config.depth": vision["layers"],
                "config.heads": heads,
                "config.patch_size": vision["patch_size"],
                "config.projection": settings["embed_dim"],
            }
        yield name, fields
        text_fields = {
            "dim": text["width"],
            "depth": text["layers"],
            "heads": text["heads"],
            "hidden": int(text["width"] * text.get("mlp_ratio", 4)),
            "projection": settings["embed_dim"],
            "tokens": text["context_length"],
            "vocabulary": text["vocab_size"],
            "causal": not text.get("no_causal_mask", False),
            "norm_eps": text.get("norm_kwargs", {}).get("eps", 1e-5),
        }
        yield f"{name}_text", {f"config.{key}": value for key, value in text_fields.items()}


def to_open_clip_name(name: str) -> str:
    """Return the name of a model in open_clip."""
    family, size, *suffixes = name.split("_")
    kind = size.removeprefix("vit")
    letter = next(
        size_name
        for size_name in ("giantopt", "so400m", "b", "l", "h")
        if kind.startswith(size_name)
    )
    patch = kind.removeprefix(letter)
    letter = {"giantopt": "gopt", "so400m": "SO400M"}.get(letter, letter.upper())
    if family == "siglip2":
        side = "" if suffixes[0] == "224" else f"-{suffixes[0]}"
        return f"ViT-{letter}-{patch}-SigLIP2{side}"
    side = "-336" if "336" in suffixes else ""
    return f"ViT-{letter}-{patch}{side}" + ("" if "laion2b" in suffixes else "-quickgelu")


def read_rfdetr(folder: Path) -> Iterator[Row]:
    """Yield the settings of rfdetr's detectors."""
    module = runpy.run_path(str(folder / "rfdetr/config.py"))
    for name in zoo.list_models("rf_detr_*"):
        class_suffix = "".join(word.capitalize() for word in name.split("_")[2:])
        class_suffix = {"SegXlarge": "SegXLarge", "Seg2xlarge": "Seg2XLarge"}.get(
            class_suffix, class_suffix
        )
        fields = module[f"RFDETR{class_suffix}Config"].model_fields
        settings = {key: field.default for key, field in fields.items()}
        yield (
            name,
            {
                "checkpoint": settings["pretrain_weights"],
                "preprocessing.size": [settings["resolution"]] * 2,
                "config.backbone.patch_size": settings["patch_size"],
                "config.backbone.positions.grid": settings["positional_encoding_size"],
                "config.windows": settings["num_windows"],
                "config.layers": settings["out_feature_indexes"],
                "config.decoder.dim": settings["hidden_dim"],
                "config.decoder.depth": settings["dec_layers"],
                "config.decoder.heads": settings["sa_nheads"],
                "config.decoder.sampling_heads": settings["ca_nheads"],
                "config.decoder.points": settings["dec_n_points"],
                "config.queries": settings["num_queries"],
                "config.groups": settings["group_detr"],
            },
        )


def read_coco_classes(folder: Path) -> dict[int, str]:
    """Return the names of COCO's classes by their numbers in rfdetr."""
    return runpy.run_path(str(folder / "rfdetr/assets/coco_classes.py"))["COCO_CLASSES"]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    models: dict[str, dict[str, object]] = {}
    for name, facts in (*read_equimo(), *read_open_clip(folder), *read_rfdetr(folder)):
        models.setdefault(name, {}).update(facts)
    rows = ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(facts)}" for name, facts in models.items()
    )
    text = (
        f'{{\n "coco": {json.dumps(read_coco_classes(folder))},\n "models": {{\n{rows}\n }}\n}}\n'
    )
    Path(__file__).with_name("published.json").write_text(text)
