"""One seeded checkpoint in every format, each written by the library that the format belongs to.

timm is not installed here: its key layout (1.0.31, `vit_*_patch16_dinov3[_qkvb]`) is the table
`TIMM`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import jax
import numpy as np
import torch
from safetensors.numpy import save_file

from tests.synthetic import make_state, save_pth
from weights import leaf_shapes
from weights.distributions import DRAWS, Float32, exact_periods
from weights.mapping import plan, source_shapes
from weights.namings.meta import DINOV3_VIT
from zoo.models.build import abstract
from zoo.models.config import ViTConfig

NANO = ViTConfig(dim=32, depth=2, heads=2, hidden=128, untied_norms=True)
GATED = ViTConfig(dim=64, depth=2, heads=2, hidden=256, ffn="swiglu")
BIASLESS = ViTConfig(
    dim=64, depth=2, heads=2, hidden=128, ffn="swiglu", qkv_bias=False, untied_norms=True
)
CONFIGS = {"nano": NANO, "gated": GATED, "biasless": BIASLESS}

FLOAT32_PERIODS = {**DRAWS, "periods": lambda shape, _: exact_periods(shape[0])}


def zero_mask(shape, _) -> Float32:
    """The bias mask that published files are reported to have."""
    return np.zeros(shape, np.float32)


State = Mapping[str, Float32]

HUGGING_FACE = (
    ("blocks.", "layer."),
    ("attn.proj", "attention.o_proj"),
    ("ls1.gamma", "layer_scale1.lambda1"),
    ("ls2.gamma", "layer_scale2.lambda1"),
    ("mlp.fc1", "mlp.up_proj"),
    ("mlp.fc2", "mlp.down_proj"),
    ("mlp.w1", "mlp.gate_proj"),
    ("mlp.w2", "mlp.up_proj"),
    ("mlp.w3", "mlp.down_proj"),
    ("patch_embed.proj", "embeddings.patch_embeddings"),
    ("storage_tokens", "embeddings.register_tokens"),
    ("cls_token", "embeddings.cls_token"),
    ("mask_token", "embeddings.mask_token"),
)

TIMM = (
    ("storage_tokens", "reg_token"),
    ("ls1.gamma", "gamma_1"),
    ("ls2.gamma", "gamma_2"),
    ("mlp.w1", "mlp.fc1_g"),
    ("mlp.w2", "mlp.fc1_x"),
    ("mlp.w3", "mlp.fc2"),
)


def seeded(config: ViTConfig, seed: int, draws=DRAWS) -> dict[str, Float32]:
    """A checkpoint's tensors in Meta's layout."""
    keys = source_shapes(plan(DINOV3_VIT.rules, leaf_shapes(abstract(config))))
    return make_state(keys, seed, draws)


def renamed(key: str, table: tuple[tuple[str, str], ...]) -> str:
    for old, new in table:
        key = key.replace(old, new)
    return key


def folded(state: State) -> dict[str, Float32]:
    """The masks multiplied into the biases, the periods and the unused norm left out."""
    out = dict(state)
    for key in list(out):
        if key.endswith(".bias_mask"):
            out[key.removesuffix("_mask")] = out[key.removesuffix("_mask")] * out.pop(key)
        elif key.startswith(("rope_embed", "local_cls_norm")):
            del out[key]
    return out


def huggingface_state(state: State) -> dict[str, Float32]:
    out: dict[str, Float32] = {}
    for key, value in folded(state).items():
        if ".attn.qkv." in key:
            prefix, leaf = renamed(key, HUGGING_FACE).split("attn.qkv.")
            for part, third in zip("qkv", np.split(value, 3), strict=True):
                out[f"{prefix}attention.{part}_proj.{leaf}"] = third
        else:
            out[renamed(key, HUGGING_FACE)] = value[None] if key == "mask_token" else value
    return {key: value for key, value in out.items() if not key.endswith(".k_proj.bias")}


def timm_state(state: State) -> dict[str, Float32]:
    out: dict[str, Float32] = {}
    for key, value in folded(state).items():
        if key.endswith("attn.qkv.bias"):
            query, _, third = np.split(value, 3)
            out[key.replace("qkv.bias", "q_bias")] = query
            out[key.replace("qkv.bias", "v_bias")] = third
        elif key != "mask_token":
            out[renamed(key, TIMM)] = value
    return out


def huggingface_config(config: ViTConfig):
    from transformers import DINOv3ViTConfig

    return DINOv3ViTConfig(
        hidden_size=config.dim,
        num_hidden_layers=config.depth,
        num_attention_heads=config.heads,
        intermediate_size=config.hidden,
        num_register_tokens=config.registers,
        use_gated_mlp=config.ffn == "swiglu",
        hidden_act="silu" if config.ffn == "swiglu" else "gelu",
        query_bias=config.qkv_bias,
        value_bias=config.qkv_bias,
    )


def huggingface_model(config: ViTConfig, state: State):
    """transformers' model with these weights; the periods are its own."""
    from transformers import DINOv3ViTModel

    model = DINOv3ViTModel(huggingface_config(config)).eval()
    tensors = {
        key.replace("layer.", "model.layer.", 1): torch.from_numpy(np.array(value))
        for key, value in huggingface_state(state).items()
    }
    model.load_state_dict(tensors)
    return model


def equimo_model(config: ViTConfig, state: State, dtype=np.float32):
    """Equimo's model with these weights."""
    from equimo.models.vit import VisionTransformer

    from zoo.checkpoints.settings.equimo import equimo_metadata

    names = {
        "storage_tokens": "reg_tokens",
        "rope_embed.periods": "local_pos_embed.patch_rope.freqs",
    }
    values = {names.get(key, key): value for key, value in folded(state).items()}
    values["local_pos_embed.patch_rope.freqs"] = state["rope_embed.periods"]
    values |= {key: state[key] for key in state if key.startswith("local_cls_norm")}

    def replace(path, leaf):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        if not isinstance(leaf, jax.Array):
            return leaf
        name = name.replace("blocks.0.blocks.", "blocks.")
        name = name.replace(".norm.", ".norm2.").replace(".prenorm.", ".norm1.")
        value = values.get(name)
        if value is None:
            assert name.endswith("attn.qkv.bias"), name
            value = np.zeros(leaf.shape, np.float32)
        return jax.numpy.asarray(value.reshape(leaf.shape), dtype)

    with jax.numpy_dtype_promotion("standard"):
        model = VisionTransformer(
            **equimo_metadata(config)["model_config"], key=jax.random.PRNGKey(0)
        )
        return jax.tree_util.tree_map_with_path(replace, model)


def write_meta(folder: Path, config: ViTConfig, state: State) -> Path:
    path = folder / "meta.pth"
    if np.array_equal(state["rope_embed.periods"], exact_periods(config.head_dim // 4)):
        torch.save({key: torch.from_numpy(np.array(value)) for key, value in state.items()}, path)
    else:
        save_pth(path, state)
    return path


def write_equimo(folder: Path, config: ViTConfig, state: State) -> Path:
    from equimo.io import save_model

    from zoo.checkpoints.settings.equimo import equimo_metadata

    path = folder / "equimo.tar.lz4"
    model = equimo_metadata(config)["model_config"]
    save_model(path, equimo_model(config, state), model)
    return path


def write_equimo_folder(folder: Path, config: ViTConfig, state: State) -> Path:
    from equimo.io import save_model

    from zoo.checkpoints.settings.equimo import equimo_metadata

    path = folder / "equimo_folder"
    model = equimo_metadata(config)["model_config"]
    save_model(path, equimo_model(config, state), model, compression=False)
    return path


def write_huggingface(folder: Path, config: ViTConfig, state: State) -> Path:
    path = folder / "huggingface"
    huggingface_model(config, state).save_pretrained(path)
    return path


def write_sharded(folder: Path, config: ViTConfig, state: State) -> Path:
    path = folder / "sharded"
    huggingface_model(config, state).save_pretrained(path, max_shard_size="60KB")
    assert len(list(path.glob("*.safetensors"))) > 1
    return path


def write_new_names(folder: Path, config: ViTConfig, state: State) -> Path:
    path = folder / "new.safetensors"
    tensors = {
        key.replace("layer.", "model.layer.", 1): np.ascontiguousarray(value)
        for key, value in huggingface_state(state).items()
    }
    save_file(tensors, path)
    return path


def write_timm(folder: Path, config: ViTConfig, state: State) -> Path:
    path = folder / "timm.safetensors"
    save_file({k: np.ascontiguousarray(v) for k, v in timm_state(state).items()}, path)
    return path


WRITERS = {
    "meta": write_meta,
    "equimo": write_equimo,
    "equimo folder": write_equimo_folder,
    "huggingface": write_huggingface,
    "huggingface sharded": write_sharded,
    "huggingface new": write_new_names,
    "timm": write_timm,
}
HAS_PERIODS = ("meta", "equimo", "equimo folder")
