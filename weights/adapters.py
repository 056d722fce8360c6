"""Merge a PEFT adapter into the network that it was trained on, while that network is read.

A folder of PEFT contains `adapter_config.json`, and in `adapter_model.safetensors` two factors for
each adapted layer: `W + s * B @ A`, where `s` is `lora_alpha / r`. It also contains the layers that
were trained completely. The names are those of PyTorch's modules in memory, which differ from those
in files since transformers 5.

Source: `peft/tuners/lora/layer.py` and `peft/utils/save_and_load.py` of huggingface/peft (0.21).
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from weights.containers import ADAPTER, open_checkpoint
from weights.errors import MappingError, NotACheckpoint
from weights.files import Checkpoint
from weights.initializers import Float32, Shape
from weights.mapping import Naming
from weights.opening import as_utf8, read_at_most
from weights.parameters import parameter
from weights.tensors import LazyTensor
from weights.views import find_views

MERGED = "PEFT adapter on its base"
"""Container of a merged checkpoint."""

ADAPTER_FILES = ("adapter_model.safetensors", "adapter_model.bin")
ADAPTER_PREFIX = "base_model.model."
FACTORS = (".lora_A.weight", ".lora_B.weight")
MAX_CONFIG_BYTES = 1 << 20  # bytes

MERGEABLE_VALUES: Mapping[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",),
    "init_lora_weights": (None, True, False, "gaussian", "orthogonal", "eva"),
}
"""Values of settings with which an adapter is a product that is added to the weight."""

USED_SETTINGS = frozenset(("lora_alpha", "alpha_pattern", "use_rslora"))

IGNORED_SETTINGS = frozenset(
    (
        *("task_type", "auto_mapping", "peft_version", "base_model_name_or_path", "revision"),
        *("inference_mode", "r", "rank_pattern", "target_modules", "exclude_modules", "bias"),
        *("modules_to_save", "layers_to_transform", "layers_pattern", "lora_dropout"),
        *("megatron_config", "megatron_core", "loftq_config", "eva_config", "corda_config"),
        *("lora_ga_config", "runtime_config", "qalora_group_size", "ensure_weight_tying"),
    )
)
"""Settings that only training uses, or that the tensors determine too. An adapter with any other
setting that is not empty may be of another kind, and is rejected."""


@dataclass(frozen=True)
class Scales:
    """Factors by which an adapter's products are multiplied before they are added to the weights.

    **Arguments:**

    - `alpha`: the setting `lora_alpha`.
    - `alphas`: other values of alpha for some layers, by the last segments of the layers' names,
      such as `attn.qkv`.
    - `by_root`: whether alpha is divided by the square root of the rank instead of the rank.
    """

    alpha: float
    alphas: Mapping[str, float]
    by_root: bool

    def of(self, layer: str, rank: int) -> float:
        """Return the factor for the product of one layer: alpha divided by the rank, or by its
        square root.

        `layer` is the name of the layer, and `rank` the size of the axis over which its two factors
        are multiplied.
        """
        matching_alphas = (
            alpha for end, alpha in self.alphas.items() if _ends_with_segments(layer, end)
        )
        return next(matching_alphas, self.alpha) / (math.sqrt(rank) if self.by_root else rank)


def _ends_with_segments(layer: str, segments: str) -> bool:
    """Return True if the last segments of a layer's name, between dots, are `segments`."""
    return f".{layer}".endswith(f".{segments}")


def with_adapter(folder: Path, base: Checkpoint, namings: Iterable[Naming]) -> Checkpoint:
    """Return the checkpoint of the base network with an adapter merged into it.

    Layers that were trained completely replace those of the base or are added. A matrix among them
    that the base does not have in this shape is a new head, whose name becomes `Checkpoint.head`.
    Weights are merged when they are read.

    **Arguments:**

    - `folder`: the folder of PEFT with the adapter.
    - `base`: the checkpoint of the base network, as it was opened.
    - `namings`: namings of base networks. The adapter may have the names of the network in memory,
      which differ from those in files.

    **Raises** `NotACheckpoint` if the folder contains no adapter, or another kind than plain LoRA,
    and `MappingError` if it does not match the base.
    """
    scales, adapter = _read_adapter(folder)
    adapter_tensors = {_network_name(key): tensor for key, tensor in adapter.tensors.items()}
    layers = dict.fromkeys(
        key.removesuffix(ending)
        for key in adapter_tensors
        for ending in FACTORS
        if key.endswith(ending)
    )
    if not layers:
        raise NotACheckpoint(f"{folder} contains no LoRA factors: save the adapter again.")
    for ending in scales.alphas:
        # PEFT allows regular expressions here. They are not evaluated, because the file is not
        # trusted. An entry that matches no layer as text is an error.
        if not any(_ends_with_segments(layer, ending) for layer in layers):
            raise NotACheckpoint(
                f"{folder} has no layer that ends in {ascii(ending)[:60]}, of which alpha_pattern "
                "speaks: merge it with peft's `merge_and_unload()`, and save the merged network."
            )
    base_name = _find_adapter_names(base, [*layers], namings, folder)
    merged = {
        base_name(f"{layer}.weight"): _merge_layer(
            base, base_name(f"{layer}.weight"), layer, adapter_tensors, scales
        )
        for layer in layers
    }
    trained_tensors = {
        key: tensor for key, tensor in adapter_tensors.items() if not key.endswith(FACTORS)
    }
    if other_factors := [key for key in trained_tensors if ".lora_" in key]:
        raise NotACheckpoint(
            f"{folder} has {ascii(other_factors[0])[1:-1][:80]}, which is no factor of a linear "
            "layer: merge it with peft's `merge_and_unload()`, and save the merged network."
        )
    replaced_tensors = {base_name(key): tensor for key, tensor in trained_tensors.items()}
    base_shapes = {key: tensor.shape for key, tensor in base.tensors.items()}
    # A layer that was trained completely and has another shape is a new head.
    heads = [
        key
        for key, tensor in replaced_tensors.items()
        if len(tensor.shape) == 2 and base_shapes.get(key) != tensor.shape
    ]
    return replace(
        base,
        container=MERGED,
        adapter=folder.absolute().name,
        files=(*base.files, *adapter.files),
        tensors={**base.tensors, **merged, **replaced_tensors},
        head=heads[0].removesuffix(".weight") if heads else "",
    )


def _read_adapter(folder: Path) -> tuple[Scales, Checkpoint]:
    """Return the scales and the tensors of the adapter in a folder of PEFT.

    **Raises** `NotACheckpoint` if the folder has no adapter, if its settings cannot be read, or if
    they describe another kind than plain LoRA.
    """
    if not (folder / ADAPTER).is_file():
        raise NotACheckpoint(
            f"{folder} holds no adapter (no {ADAPTER}): leave out {parameter('base')}, or name "
            "peft's folder."
        )
    try:
        config = json.loads(as_utf8(read_at_most(folder / ADAPTER, MAX_CONFIG_BYTES)))
        alphas = config.get("alpha_pattern") or {}
        scales = Scales(
            float(config.get("lora_alpha", 8)),
            {str(end).removeprefix("^"): float(alpha) for end, alpha in alphas.items()},
            bool(config.get("use_rslora")),
        )
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise NotACheckpoint(
            f"{folder / ADAPTER} cannot be used ({type(error).__name__}): save the adapter again."
        ) from error
    for name, value in {**dict.fromkeys(MERGEABLE_VALUES), **config}.items():
        if not _is_mergeable(name, value):
            raise NotACheckpoint(
                f"{folder} is no plain LoRA: its {ADAPTER} says "
                f"{ascii(name)[1:-1][:60]} = {ascii(value)[:60]}. "
                "Merge it with peft's `merge_and_unload()`, and save the merged network."
            )
    files = [name for name in ADAPTER_FILES if (folder / name).is_file()]
    if not files:
        raise NotACheckpoint(
            f"{folder} has no {' and no '.join(ADAPTER_FILES)}: save the adapter again."
        )
    return scales, open_checkpoint(folder / files[0])


def _is_mergeable(name: str, value: object) -> bool:
    """Return True if the value of an adapter's setting `name` allows merging: the adapter is plain
    LoRA, a product that is added to the weight.

    A setting that is not known must be empty: None, False, `""`, or an empty list or dictionary.
    """
    if name in MERGEABLE_VALUES:
        return value in MERGEABLE_VALUES[name]
    return name in USED_SETTINGS | IGNORED_SETTINGS or value in (None, False, "", [], {})


def _network_name(key: str) -> str:
    """Return the name that an adapter's tensor has in the network: the name without the segments of
    PEFT's wrapper modules."""
    for part in (".base_layer", ".modules_to_save", ".default"):
        key = key.replace(f"{part}.", ".")
    return key.removeprefix(ADAPTER_PREFIX)


@dataclass(frozen=True)
class _AdapterNames:
    """Names of an adapter's tensors in the file of the base network.

    Either the adapter or the base may have additional modules around the network.

    **Arguments:**

    - `names`: the base's names in memory, with the name in the file for each.
    - `inner`: the prefix that only the adapter's names have.
    - `outer`: the prefix that only the base's names have.
    """

    names: Mapping[str, str]
    inner: str = ""
    outer: str = ""

    def __call__(self, key: str) -> str:
        """Return the name in the base's file for the tensor that the adapter calls `key`; `key`
        itself if the base does not have this tensor."""
        return self.names.get(self.outer + key.removeprefix(self.inner), key)

    def find_missing_layers(self, layers: Iterable[str]) -> list[str]:
        """Return the layers that the adapter changes and the base does not have. `layers` are all
        layers that the adapter changes."""
        inner_layers = (layer for layer in layers if layer.startswith(self.inner))
        present = {
            layer
            for layer in inner_layers
            if self.outer + f"{layer}.weight".removeprefix(self.inner) in self.names
        }
        return [layer for layer in layers if layer not in present]


def _find_adapter_names(
    base: Checkpoint, layers: list[str], namings: Iterable[Naming], folder: Path
) -> _AdapterNames:
    """Return the translation of names with which the base has all layers of the adapter.

    **Arguments:**

    - `layers`: the names of the layers that the adapter changes.
    - `namings`: namings of base networks, for their names in memory.
    - `folder`: the adapter's folder, for the message.

    **Raises** `MappingError` if the base lacks a layer under every possible translation.
    """
    fewest_missing = layers
    for names in _base_names(base, namings):
        for candidate in _candidate_names(names, f"{layers[0]}.weight"):
            missing_here = candidate.find_missing_layers(layers)
            if not missing_here:
                return candidate
            fewest_missing = min(fewest_missing, missing_here, key=len)
    raise MappingError(
        f"{base.path} is not what {folder} was trained on: it has no weights for "
        f"{', '.join(ascii(layer)[1:-1][:80] for layer in fewest_missing[:3])} "
        f"({len(fewest_missing)} of {len(layers)} layers). Give {parameter('base')} the checkpoint "
        "of its base_model."
    )


def _base_names(base: Checkpoint, namings: Iterable[Naming]) -> Iterator[Mapping[str, str]]:
    """Yield possible names of the base's tensors, each time with the names in the file for them:
    first those of the file itself, then those in memory of each naming."""
    yield {key: key for key in base.tensors}
    for naming in namings:
        if (in_memory := naming.in_memory) is None:
            continue
        for view in find_views(base, naming):
            renamed_keys = ((key, naming.rename_key(key, in_memory)) for key in view.tensors)
            full_names = {
                name: f"{view.prefix}{key}" for key, name in renamed_keys if name is not None
            }
            yield {name: key for name, key in full_names.items() if key in base.tensors}


def _candidate_names(names: Mapping[str, str], first: str) -> Iterator[_AdapterNames]:
    """Yield the translations of an adapter's names under which the base has a tensor for `first`.

    `first` is a name of the adapter. Modules around the network are left out at its beginning, or
    added there.
    """
    suffix = first
    while suffix:
        if suffix in names:
            yield _AdapterNames(names, inner=first.removesuffix(suffix))
        suffix = suffix.partition(".")[2]
    for name in names:
        if name.endswith(f".{first}"):
            yield _AdapterNames(names, outer=name.removesuffix(first))


def _merge_layer(
    base: Checkpoint,
    key: str,
    layer: str,
    adapter_tensors: Mapping[str, LazyTensor],
    scales: Scales,
) -> LazyTensor:
    """Return the weight of a layer with the adapter's product added to it. It is computed when it
    is read.

    **Arguments:**

    - `base`: the checkpoint of the base network.
    - `key`: the name of the weight in the base.
    - `layer`: the name of the layer in the adapter.
    - `adapter_tensors`: the tensors of the adapter by name.
    - `scales`: the factors of products.

    **Raises** `MappingError` if one of the two factors is missing, or if their shapes do not match
    the weight.
    """
    weight = base.tensors[key]
    try:
        low, high = (adapter_tensors[layer + ending] for ending in FACTORS)
    except KeyError as error:
        layer_text = ascii(layer)[1:-1][:80]
        raise MappingError(
            f"the adapter has only one of two factors of {layer_text}: save it again."
        ) from error
    if not _factors_match(weight.shape, low.shape, high.shape):
        raise MappingError(
            f"the adapter's factors of {ascii(layer)[1:-1][:80]} are {list(low.shape)} and "
            f"{list(high.shape)}, and the base's weight is {list(weight.shape)}: give "
            f"{parameter('base')} the checkpoint that it was trained on."
        )
    scale = np.float32(scales.of(layer, low.shape[0]))

    def read() -> Float32:
        factor = high.read().reshape(high.shape[:2])
        product = np.tensordot(factor, low.read(), 1)
        return weight.read() + scale * product

    return LazyTensor(weight.shape, "float32", read)


def _factors_match(weight: Shape, low: Shape, high: Shape) -> bool:
    """Return True if the product of two factors has the shape of a weight.

    The weight may be that of a linear layer or of a convolution. `low` is the shape of the factor
    that is applied first, `high` that of the other one.
    """
    is_pointwise = all(size == 1 for size in high[2:])
    return (
        len(low) == len(high)
        and is_pointwise
        and low[:1] == high[1:2]
        and (high[0], *low[1:]) == weight
    )
