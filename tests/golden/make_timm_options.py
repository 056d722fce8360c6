"""Write `timm_options.json`: timm's vision transformers by architecture and option.

The file has the options of every architecture, and small networks with the names and shapes of
their tensors, the `config.json` that timm saves, and the outputs for a picture. The values of
tensors are drawn by `tests.drawn_state` and not stored. Run this program in an environment with
timm (1.0.31):
`python tests/golden/make_timm_options.py`.
"""

import json
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np
import timm
import torch
from timm.models import deit, save_for_hf, vision_transformer

from tests.drawn_state import drawn, picture

SIZES = {"embed_dim": 32, "depth": 2, "num_heads": 4, "img_size": 32, "patch_size": 8}
UNSTATED = (
    *("pretrained_filter_fn", "pretrained_strict", "feature_cfg", "pretrained_cfg", "cache_dir"),
    *("pretrained_cfg_overlay", "mlp_ratio", *SIZES),
)
"""Arguments of builders that are not recorded, and sizes of the small networks."""

DRAWN: dict[str, list[Any]] = {
    "global_pool": ["token", "avg", "map"],
    "fc_norm": [None, True, False],
    "class_token": [True, True, False],
    "reg_tokens": [0, 0, 1, 4],
    "no_embed_class": [False, True],
    "qk_norm": [False, True],
    "pre_norm": [False, True],
    "init_values": [None, 1e-5],
    "qkv_bias": [True, True, False],
}
"""Options of `VisionTransformer` and the values from which they are drawn."""

BASE = "vit_tiny_patch16_224"


class Stated(Exception):
    """An exception that carries the arguments with which an architecture calls its builder."""


def stated_options(architecture: str) -> dict[str, Any]:
    """Return the options that an architecture states."""

    def build(kind: Any, variant: str, pretrained: bool, *_: Any, **options: Any) -> None:
        raise Stated({"class": kind.__name__, **options})

    with (
        mock.patch.object(vision_transformer, "build_model_with_cfg", build),
        mock.patch.object(deit, "build_model_with_cfg", build),
    ):
        try:
            timm.create_model(architecture)
        except Stated as stated:
            options = stated.args[0]
        except RuntimeError as error:  # which timm raises for a generator that ends early
            assert isinstance(error.__cause__, Stated)
            options = error.__cause__.args[0]
    return {name: to_json(value) for name, value in options.items() if name not in UNSTATED}


def to_json(value: Any) -> Any:
    """Return the value of an option for JSON: functions and classes become names."""
    if isinstance(value, partial):
        inner = ", ".join(f"{name}={to_json(item)}" for name, item in value.keywords.items())
        return f"{value.func.__name__}({inner})"
    return getattr(value, "__name__", value)


def describe_network(
    architecture: str, classes: int, pool: str = "", **options: Any
) -> dict[str, Any]:
    """Return the description of a network: its `config.json`, shapes and output.

    With `pool`, the classifier is first replaced by `reset_classifier`.
    """
    model = timm.create_model(architecture, num_classes=classes, **SIZES, **options).eval()
    if pool:
        model.reset_classifier(classes, pool)
    shapes = {name: list(value.shape) for name, value in model.state_dict().items()}
    state = {name: torch.from_numpy(value) for name, value in drawn(shapes).items()}
    model.load_state_dict(state)
    with torch.no_grad():
        output = model(torch.from_numpy(picture((32, 32))[None]))[0].numpy()
    with TemporaryDirectory() as folder:
        save_for_hf(model, folder, model_config={"model_args": {**SIZES, **options}})
        settings = json.loads((Path(folder) / "config.json").read_text())
    return {
        "settings": settings,
        "classes": classes,
        "options": {**options, **({"reset": pool} if pool else {})},
        "shapes": shapes,
        "output": np.round(output.astype(np.float64), 7).tolist(),
    }


def describe_networks(options: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one network of each kind of architecture, and networks with drawn options."""
    descriptions, kinds = [], set()
    for architecture, stated in options.items():
        kind = json.dumps({k: v for k, v in stated.items() if k != "dynamic_img_size"})
        if (
            kind not in kinds and "giant_patch14" not in architecture
        ):  # timm checks the width of giant networks
            kinds.add(kind)
            descriptions.append(describe_network(architecture, 5))
    rng = np.random.default_rng(5)
    for number in range(60):
        chosen = {name: values[rng.integers(len(values))] for name, values in DRAWN.items()}
        if not chosen["class_token"] and chosen["global_pool"] == "token":
            chosen["global_pool"] = "avg"
        chosen = {name: value for name, value in chosen.items() if value is not None}
        descriptions.append(describe_network(BASE, 0 if number % 5 == 4 else 5, **chosen))
    for architecture in (BASE, "deit_tiny_patch16_224", "vit_small_patch14_dinov2"):
        descriptions.append(describe_network(architecture, 5, pool="avg"))
    descriptions.append(describe_network("vit_small_patch14_reg4_dinov2", 5, pool="avg"))
    descriptions += [describe_network(BASE, 5, global_pool=pool) for pool in ("max", "avgmax")]
    return descriptions


def main() -> None:
    """Write the file."""
    names = [n for m in ("vision_transformer", "deit") for n in timm.list_models(module=m)]
    options = {name: stated_options(name) for name in names}
    path = Path(__file__).with_name("timm_options.json")
    rows = [json.dumps(row) for row in describe_networks(options)]
    architectures = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in options.items())
    listed = ",\n".join(rows)
    path.write_text(f'{{"architectures": {{\n{architectures}\n}},\n"networks": [\n{listed}\n]}}\n')


if __name__ == "__main__":
    main()
