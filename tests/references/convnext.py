"""ConvNeXt by Equimo, transformers and timm, and the names that each has for the weights."""

from __future__ import annotations

import re
from collections.abc import Mapping

import equinox as eqx
import jax
import numpy as np
from numpy.typing import NDArray

import zoo
from tests.references import Arrays, Reference
from zoo.models.config import ConvNeXtConfig

Values = Mapping[str, NDArray[np.float32]]

# What our paths become in others' files; written down from their state dicts, not from our tables.
META = (
    (r"blocks\.0\.downsample\.conv", "downsample_layers.0.0"),
    (r"blocks\.0\.downsample\.norm", "downsample_layers.0.1"),
    (r"blocks\.(\d)\.downsample\.norm", r"downsample_layers.\1.0"),
    (r"blocks\.(\d)\.downsample\.conv", r"downsample_layers.\1.1"),
    (r"blocks\.(\d)\.blocks\.", r"stages.\1."),
    (r"ls\.gamma", "gamma"),
)
HUGGINGFACE = (
    (r"^norm", "layer_norm"),
    (r"blocks\.0\.downsample\.conv", "stages.0.downsample_layers.0"),
    (r"blocks\.0\.downsample\.norm", "stages.0.downsample_layers.1"),
    (r"blocks\.(\d)\.downsample\.norm", r"stages.\1.downsample_layers.0"),
    (r"blocks\.(\d)\.downsample\.conv", r"stages.\1.downsample_layers.1"),
    (r"blocks\.(\d)\.blocks\.(\d+)\.norm", r"stages.\1.layers.\2.layer_norm"),
    (r"blocks\.(\d)\.blocks\.", r"stages.\1.layers."),
    (r"dwconv", "depthwise_conv"),
    (r"pwconv", "pointwise_conv"),
    (r"ls\.gamma", "gamma"),
)
TIMM = (
    (r"^norm", "head.norm"),
    (r"blocks\.0\.downsample\.conv", "stem.0"),
    (r"blocks\.0\.downsample\.norm", "stem.1"),
    (r"blocks\.(\d)\.downsample\.norm", r"stages.\1.downsample.0"),
    (r"blocks\.(\d)\.downsample\.conv", r"stages.\1.downsample.1"),
    (r"blocks\.(\d)\.blocks\.", r"stages.\1.blocks."),
    (r"dwconv", "conv_dw"),
    (r"pwconv", "mlp.fc"),
    (r"ls\.gamma", "gamma"),
)


def torch_state(values: Values, names: tuple[tuple[str, str], ...]) -> Arrays:
    """Weights in the layout of PyTorch, where the bias of a convolution has one axis."""
    state: Arrays = {}
    for path, value in values.items():
        key = path
        for pattern, name in names:
            key = re.sub(pattern, name, key)
        state[key] = value[:, 0, 0] if value.ndim == 3 else value
    return state


def tensors(state: Mapping[str, NDArray[np.float32]]):
    import torch

    return {key: torch.from_numpy(np.array(value)) for key, value in state.items()}


def equimo_model(config: ConvNeXtConfig, values: Values):
    """Equimo's model with these leaves, which have the same paths there."""
    from equimo.models.convnext import ConvNeXt

    def build(key):
        return ConvNeXt(
            depths=list(config.depths),
            dims=list(config.dims),
            act_layer="exactgelu",
            num_classes=0,
            key=key,
        )

    def place(path, leaf):
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            return leaf
        value = values[jax.tree_util.keystr(path, simple=True, separator=".")]
        return jax.numpy.asarray(value.reshape(leaf.shape))

    shapes = eqx.filter_eval_shape(build, jax.random.PRNGKey(0))
    return jax.tree_util.tree_map_with_path(place, shapes)


@eqx.filter_jit
def equimo_outputs(model, image):
    """The last map and the normed mean."""
    key = jax.random.PRNGKey(0)
    # Equimo's dtype promotions are its own business.
    with jax.numpy_dtype_promotion("standard"):
        last = model.features(image, key=key, inference=True)
        return last, model(image, key=key, inference=True)


def run_equimo(config, values, image) -> Arrays:
    """`features` gives the last map; the model itself the normed mean."""
    model = equimo_model(config, values)
    last, pooled = equimo_outputs(model, image)
    rows = jax.vmap(model.norm)(last.reshape(config.dim, -1).T)
    hidden = np.concatenate([pooled[None], rows])
    return {"last_hidden_state": hidden, "pooler_output": np.asarray(pooled)}


def transformers_model(config: ConvNeXtConfig, values: Values):
    """transformers' model with these leaves."""
    from transformers import DINOv3ConvNextConfig, DINOv3ConvNextModel

    theirs = DINOv3ConvNextConfig(hidden_sizes=list(config.dims), depths=list(config.depths))
    model = DINOv3ConvNextModel(theirs).eval()
    state = torch_state(values, HUGGINGFACE)
    model.load_state_dict(tensors({re.sub("^stages", "model.stages", k): state[k] for k in state}))
    return model


def run_transformers(config, values, image) -> Arrays:
    import torch

    with torch.no_grad():
        out = transformers_model(config, values)(torch.from_numpy(image[None]))
    return {name: out[name][0].numpy() for name in ("last_hidden_state", "pooler_output")}


def run_timm(config, values, image) -> Arrays:
    """timm has the norm in its head, over the mean only."""
    import timm
    import torch

    model = timm.create_model(
        "convnext_tiny.dinov3_lvd1689m", pretrained=False, depths=config.depths, dims=config.dims
    ).eval()
    model.load_state_dict(tensors(torch_state(values, TIMM)))
    with torch.no_grad():
        return {"pooler_output": model(torch.from_numpy(image[None]))[0].numpy()}


BY: dict[str, Reference] = {"equimo": run_equimo, "transformers": run_transformers}

REFERENCES: dict[str, dict[str, Reference]] = {
    name: dict(BY) for name in zoo.list_models("*convnext*")
}
