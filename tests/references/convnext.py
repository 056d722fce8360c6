"""ConvNeXt by Equimo, transformers and timm, and timm's names of its weights."""

import re

import equinox as eqx
import jax
import numpy as np

import zoo
from tests.references import Arrays, Reference
from tests.references.running import Values, run_transformers, transformers_model
from weights.namings import convnext_names
from zoo.architectures.convnext.convnext_config import ConvNeXtConfig

# Patterns of the zoo's paths, and their replacements in timm's files. They were written down from
# timm's state dicts, independently of the zoo's table.
TIMM = (
    (r"^head", "head.fc"),
    (r"^norm", "head.norm"),
    (r"blocks\.0\.downsample\.conv", "stem.0"),
    (r"blocks\.0\.downsample\.norm", "stem.1"),
    (r"blocks\.(\d)\.downsample\.norm", r"stages.\1.downsample.0"),
    (r"blocks\.(\d)\.downsample\.conv", r"stages.\1.downsample.1"),
    (r"blocks\.(\d)\.blocks\.", r"stages.\1.blocks."),
    (r"dwconv", "conv_dw"),
    (r"pwconv", "mlp.fc"),
    (r"ls\.gamma", "gamma"),
    (r"grn", "mlp.grn"),
)


def timm_state(values: Values, convolved: bool = False) -> Arrays:
    """Return the weights in timm's layout, in which the bias of a convolution has one axis.

    With `convolved`, the linear layers are convolutions, as in some of timm's networks.
    """
    state: Arrays = {}
    for path, value in values.items():
        key = path
        for pattern, name in TIMM:
            key = re.sub(pattern, name, key)
        if convolved and re.search(r"fc[12]\.weight", key):
            value = value[..., None, None]
        state[key] = value[:, 0, 0] if value.ndim == 3 else value
    return state


def equimo_model(config: ConvNeXtConfig, values: Values):
    """Return Equimo's model with these leaves. The paths are the same in both libraries."""
    from equimo.models.convnext import ConvNeXt

    def build(key):
        sizes = {"depths": list(config.depths), "dims": list(config.dims), "num_classes": 0}
        return ConvNeXt(**sizes, act_layer="exactgelu", key=key)

    def replace_leaf(path, leaf):
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            return leaf
        value = values[jax.tree_util.keystr(path, simple=True, separator=".")]
        return jax.numpy.asarray(value.reshape(leaf.shape))

    shapes = eqx.filter_eval_shape(build, jax.random.PRNGKey(0))
    return jax.tree_util.tree_map_with_path(replace_leaf, shapes)


@eqx.filter_jit
def equimo_outputs(model, image):
    """Return the last map and the normed mean."""
    key = jax.random.PRNGKey(0)
    # Equimo relies on implicit dtype promotion, which the tests forbid elsewhere.
    with jax.numpy_dtype_promotion("standard"):
        last = model.features(image, key=key, inference=True)
        return last, model(image, key=key, inference=True)


def run_equimo(config, values, image) -> Arrays:
    """Run Equimo. `features` returns the last map, and the model itself returns the normed mean."""
    model = equimo_model(config, values)
    last, pooled = equimo_outputs(model, image)
    rows = jax.vmap(model.norm)(last.reshape(config.dim, -1).T)
    hidden = np.concatenate([pooled[None], rows])
    return {"last_hidden_state": hidden, "pooler_output": np.asarray(pooled)}


def transformers(config: ConvNeXtConfig, values: Values):
    """Return transformers' model with these leaves."""
    import transformers as theirs

    sizes = {"hidden_sizes": list(config.dims), "depths": list(config.depths)}
    if not config.classes:
        settings, model_class = theirs.DINOv3ConvNextConfig(**sizes), theirs.DINOv3ConvNextModel
        return transformers_model(model_class, settings, convnext_names.HUGGINGFACE, values)
    first_version = theirs.ConvNextForImageClassification
    model_class = theirs.ConvNextV2ForImageClassification if config.response_norm else first_version
    settings = model_class.config_class(
        **sizes, num_labels=config.classes, layer_norm_eps=config.final_norm_eps or config.norm_eps
    )
    return transformers_model(model_class, settings, convnext_names.CLASSIFIER, values)


def by_transformers(config, values, image) -> Arrays:
    """Run transformers.

    The last map of a classifier has no norm there and is therefore no output of the zoo's model.
    """
    model = transformers(config, values)
    if not config.classes:
        return run_transformers(model, image)
    backbone = getattr(model, "convnextv2" if config.response_norm else "convnext")
    pooled = run_transformers(backbone, image, ("pooler_output",))
    return pooled | run_transformers(model, image, ("logits",))


def run_timm(config, values, image) -> Arrays:
    """Run timm, which applies the norm in its head, only to the mean."""
    import timm
    import torch

    model = timm.create_model(
        "convnext_tiny.dinov3_lvd1689m", pretrained=False, depths=config.depths, dims=config.dims
    ).eval()
    state = timm_state(values)
    model.load_state_dict({key: torch.from_numpy(np.array(state[key])) for key in state})
    with torch.no_grad():
        return {"pooler_output": model(torch.from_numpy(image[None]))[0].numpy()}


REFERENCES: dict[str, dict[str, Reference]] = {
    name: {"transformers": by_transformers}
    | ({} if zoo.info(name).config.classes else {"equimo": run_equimo})
    for name in zoo.list_models("*convnext*")
}
