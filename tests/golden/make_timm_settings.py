"""Write `timm_settings.json`: small seeded networks of timm with one changed argument each.

The file has the `config.json` that timm writes, the shapes of tensors, and the logits for a
picture.

    PYTHONPATH=. python tests/golden/make_timm_settings.py

Run this program in an environment with timm (1.0.31, PyTorch 2.13). Configurations and shapes are
stored as differences from those of the architecture's small network. Values of arguments with which
timm creates no network are left out.
"""

import inspect
import json
import tempfile
from pathlib import Path

import numpy as np
import timm
import torch
from timm.models._hub import save_config_for_hf

from tests.references.timm_settings import BASES, FILE, picture, state_of

VALUES = {
    "act_layer": ("gelu", "relu", "silu", "gelu_tanh", "quick_gelu"),
    "norm_layer": ("layernorm", "rmsnorm", "layernorm2d", "batchnorm2d"),
    "global_pool": ("", "token", "avg", "max", "avgmax", "catavgmax", "map", "prr"),
    "pos_embed": ("none", "learn", ""),
    "weight_init": ("jax", "moco", "skip"),
    "attn_type": ("eva", "rope"),
    "rope_type": ("cat", "axial", "mixed", "dinov3", "mrope"),
    "rope_grid_indexing": ("ij", "xy"),
    "stem_type": ("patch", "overlap", "overlap_tiered"),
    "init_values": (None, 0.1, 1.0),
    "mlp_layer": ("swiglu", "glumlp"),
    "embed_norm_layer": ("layernorm",),
    "pretrained_window_sizes": ([2, 0], [2, 3]),
    "kernel_sizes": (3, 5, [7, 5, 7, 3]),
    "output_stride": (8, 16),
    "num_heads": (4, 8, [2, 4], [4, 3]),
    "reg_tokens": (0, 1, 4),
    "num_reg_tokens": (0, 1, 4),
    "norm_eps": (1e-5, 0.1),
    "num_classes": (0, 1, 7),
    "in_chans": (1, 4),
    "img_size": (48, 64, [32, 48]),
    "patch_size": (2, 4, 8, 16),
    "ref_feat_shape": (8, [8, 8]),
    "head_hidden_size": (24,),
    "attn_pool_num_heads": (4,),
    "attn_pool_mlp_ratio": (2.0,),
    "num_kv_heads": (1,),
    "rope_mrope_section": ([1, 2, 1],),
    "rope_grid_offset": (0.0, 0.5),
    "depths": ([1, 1, 2, 1], [2, 1], [2, 4]),
    "dims": ([16, 12, 16, 24],),
}
"""Other values of arguments, where they do not follow from the type of the default."""

SKIPPED_ARGUMENTS = ("self", "device", "dtype", "kwargs")
CREATION_ERRORS = (
    *(ValueError, TypeError, KeyError, AssertionError, RuntimeError, AttributeError),
    *(IndexError, NotImplementedError, ZeroDivisionError, ImportError),
)
"""Exceptions that timm raises if it cannot create a network with the arguments."""


def other_values(name, value):
    """Return other values of an argument than its default."""
    if name in VALUES:
        return [item for item in VALUES[name] if item != value]
    if isinstance(value, bool):
        return [not value]
    if value is None:
        return [True, 0.3, 2]
    if isinstance(value, int):
        return [2 * value, value + 1]
    if isinstance(value, float):
        return [2 * value + 0.1, value / 2]
    return []


def describe_network(architecture, arguments):
    """Return `config.json`, shapes, size and logits of a network.

    Return None if timm cannot create it.
    """
    try:
        model = timm.create_model(architecture, **{"num_classes": 3, **arguments}).eval()
        shapes = {key: tuple(value.shape) for key, value in model.state_dict().items()}
        state = {key: torch.from_numpy(np.array(value)) for key, value in state_of(shapes).items()}
        model.load_state_dict(state)
        side = arguments.get("img_size", 64)
        size = (side, side) if isinstance(side, int) else (side[0], side[1])
        with torch.no_grad():
            logits = model(torch.from_numpy(picture(size)[None]))[0]
        with tempfile.TemporaryDirectory() as folder:
            save_config_for_hf(model, Path(folder) / "config.json")
            config = json.loads((Path(folder) / "config.json").read_text())
    except CREATION_ERRORS as error:
        print(" ", architecture, arguments, type(error).__name__, str(error)[:100])
        return None
    return config, shapes, size, [float(f"{value:.7g}") for value in logits.flatten()[:8]]


def dict_difference(new, earlier):
    """Return the new and changed entries, and None for removed ones."""
    changed = {key: value for key, value in new.items() if earlier.get(key) != value}
    return changed | {key: None for key in earlier if key not in new}


def read_arguments(architecture):
    """Return the arguments of an architecture's class with their defaults."""
    network_class = type(timm.create_model(architecture, **BASES[architecture]))
    defaults = {}
    for base in reversed(network_class.__mro__):
        if base.__module__.startswith("timm.models"):
            parameters = inspect.signature(base.__init__).parameters
            defaults |= {name: argument.default for name, argument in parameters.items()}
    return {
        name: value
        for name, value in defaults.items()
        if name not in ("self", "args", *SKIPPED_ARGUMENTS)
    }


def to_plain_value(value):
    """Return a number, boolean or string unchanged, and None for other values."""
    return value if isinstance(value, bool | int | float | str | None) else None


def main() -> None:
    """Write the file."""
    written = {}
    for architecture, base in BASES.items():
        config, shapes, size, logits = describe_network(architecture, base)
        rows = [["", None, {}, {}, size, logits]]
        for name, default in read_arguments(architecture).items():
            value = base.get(name, config.get("model_args", {}).get(name, to_plain_value(default)))
            for other in other_values(name, value):
                if (description := describe_network(architecture, base | {name: other})) is None:
                    continue
                changes = dict_difference(description[0], config)
                if "model_args" in changes:
                    changes["model_args"] = dict_difference(
                        description[0]["model_args"], config["model_args"]
                    )
                rows.append(
                    [
                        name,
                        other,
                        changes,
                        dict_difference(description[1], shapes),
                        *description[2:],
                    ]
                )
        written[architecture] = {"config": config, "shapes": shapes, "cases": rows}
        print(architecture, len(rows))
    lines = []
    for architecture, facts in written.items():
        rows = ",\n".join(f"  {json.dumps(row)}" for row in facts["cases"])
        head = (
            f'  "config": {json.dumps(facts["config"])},\n  "shapes": {json.dumps(facts["shapes"])}'
        )
        lines.append(f'"{architecture}": {{\n{head},\n  "cases": [\n{rows}\n ]}}')
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
