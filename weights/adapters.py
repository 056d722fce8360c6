"""Adapters of peft, merged into the network that they were trained on while that is read.

A folder of peft holds `adapter_config.json` and, in `adapter_model.safetensors`, two factors for
each layer that was adapted: `W + s * B @ A`, where `s` is `lora_alpha / r`, and the layers that
were trained as a whole. A factor's name is that of a layer in PyTorch's memory, which in
transformers 5 is another than in its files.

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
from weights.views import views

MERGED = "PEFT adapter on its base"
"""The container of what is merged."""

ADAPTER_FILES = ("adapter_model.safetensors", "adapter_model.bin")
WRAPPER = "base_model.model."
FACTORS = (".lora_A.weight", ".lora_B.weight")
LARGEST_CONFIG = 1 << 20  # bytes

MERGEABLE_VALUES: Mapping[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",),
    "init_lora_weights": (None, True, False, "gaussian", "orthogonal", "eva"),
}
"""Values with which an adapter is a product that is added."""

FOLLOWED = frozenset(("lora_alpha", "alpha_pattern", "use_rslora"))

WITHOUT_EFFECT = frozenset(
    (
        *("task_type", "auto_mapping", "peft_version", "base_model_name_or_path", "revision"),
        *("inference_mode", "r", "rank_pattern", "target_modules", "exclude_modules", "bias"),
        *("modules_to_save", "layers_to_transform", "layers_pattern", "lora_dropout"),
        *("megatron_config", "megatron_core", "loftq_config", "eva_config", "corda_config"),
        *("lora_ga_config", "runtime_config", "qalora_group_size", "ensure_weight_tying"),
    )
)
"""Settings of training, and those that say again what the tensors do. Whatever else is not empty
may make an adapter another one."""


@dataclass(frozen=True)
class Scales:
    """How much of an adapter's products is added: `alpha` over the rank, or over its root."""

    alpha: float
    alphas: Mapping[str, float]
    by_root: bool

    def of(self, layer: str, rank: int) -> float:
        """The factor of a layer's product."""
        own = (alpha for end, alpha in self.alphas.items() if _ends_in(layer, end))
        return next(own, self.alpha) / (math.sqrt(rank) if self.by_root else rank)


def _ends_in(layer: str, end: str) -> bool:
    return f".{layer}".endswith(f".{end}")


def with_adapter(folder: Path, base: Checkpoint, namings: Iterable[Naming]) -> Checkpoint:
    """Merge an adapter into the network that it was trained on.

    **Arguments:** peft's folder; the base, as it lies on disk; and the namings whose names in
    memory are others than in files.

    **Raises** `NotACheckpoint` if the folder holds no adapter, or one that is no plain LoRA, and
    `MappingError` if it does not fit the base.
    """
    scales, adapter = _read(folder)
    kept = {_in_network(key): tensor for key, tensor in adapter.tensors.items()}
    layers = dict.fromkeys(
        key.removesuffix(end) for key in kept for end in FACTORS if key.endswith(end)
    )
    if not layers:
        raise NotACheckpoint(f"{folder} has no factors of LoRA in it: save the adapter again.")
    for end in scales.alphas:
        # peft takes regular expressions; a stranger's is not run, and none is passed over.
        if not any(_ends_in(layer, end) for layer in layers):
            raise NotACheckpoint(
                f"{folder} has no layer that ends in {ascii(end)[:60]}, of which alpha_pattern "
                "speaks: merge it with peft's `merge_and_unload()`, and name what that gives."
            )
    places = _places(base, [*layers], namings, folder)
    merged = {
        places(f"{layer}.weight"): _merged(base, places(f"{layer}.weight"), layer, kept, scales)
        for layer in layers
    }
    trained = {key: tensor for key, tensor in kept.items() if not key.endswith(FACTORS)}
    if strange := [key for key in trained if ".lora_" in key]:
        raise NotACheckpoint(
            f"{folder} has {ascii(strange[0])[1:-1][:80]}, which is no factor of a linear layer: "
            "merge it with peft's `merge_and_unload()`, and name what that gives."
        )
    whole = {places(key): tensor for key, tensor in trained.items()}
    before = {key: tensor.shape for key, tensor in base.tensors.items()}
    # A layer that was trained as a whole, and answers something else than the base's.
    heads = [k for k, t in whole.items() if len(t.shape) == 2 and before.get(k) != t.shape]
    return replace(
        base,
        container=MERGED,
        adapter=folder.absolute().name,
        files=(*base.files, *adapter.files),
        tensors={**base.tensors, **merged, **whole},
        head=heads[0].removesuffix(".weight") if heads else "",
    )


def _read(folder: Path) -> tuple[Scales, Checkpoint]:
    if not (folder / ADAPTER).is_file():
        raise NotACheckpoint(
            f"{folder} holds no adapter (no {ADAPTER}): leave out {parameter('base')}, or name "
            "peft's folder."
        )
    try:
        config = json.loads(as_utf8(read_at_most(folder / ADAPTER, LARGEST_CONFIG)))
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
        if not _is_plain(name, value):
            raise NotACheckpoint(
                f"{folder} is no plain LoRA: its {ADAPTER} says "
                f"{ascii(name)[1:-1][:60]} = {ascii(value)[:60]}. "
                "Merge it with peft's `merge_and_unload()`, and name what that gives."
            )
    files = [name for name in ADAPTER_FILES if (folder / name).is_file()]
    if not files:
        raise NotACheckpoint(
            f"{folder} has no {' and no '.join(ADAPTER_FILES)}: save the adapter again."
        )
    return scales, open_checkpoint(folder / files[0])


def _is_plain(name: str, value: object) -> bool:
    """Whether an adapter with this setting is a product that is added."""
    if name in MERGEABLE_VALUES:
        return value in MERGEABLE_VALUES[name]
    return name in FOLLOWED | WITHOUT_EFFECT or value in (None, False, "", [], {})


def _in_network(key: str) -> str:
    """What a layer of peft's is called in the network around which peft was put."""
    for part in (".base_layer", ".modules_to_save", ".default"):
        key = key.replace(f"{part}.", ".")
    return key.removeprefix(WRAPPER)


@dataclass(frozen=True)
class _AdapterNames:
    """What a network's tensors are called in the base's file, by an adapter's names.

    Modules around the network are in one of both alone: `inner` is what comes before an adapter's
    names, `outer` what comes before the base's.
    """

    names: Mapping[str, str]
    inner: str = ""
    outer: str = ""

    def __call__(self, key: str) -> str:
        """The base's name; the same where the base has no such tensor."""
        return self.names.get(self.outer + key.removeprefix(self.inner), key)

    def lacking(self, layers: Iterable[str]) -> list[str]:
        """The layers that are not in the base."""
        inside = (layer for layer in layers if layer.startswith(self.inner))
        present = {
            x for x in inside if self.outer + f"{x}.weight".removeprefix(self.inner) in self.names
        }
        return [layer for layer in layers if layer not in present]


def _places(
    base: Checkpoint, layers: list[str], namings: Iterable[Naming], folder: Path
) -> _AdapterNames:
    """The names under which all layers are in the base. **Raises** `MappingError`."""
    missing = layers
    for names in _names_in(base, namings):
        for places in _around(names, f"{layers[0]}.weight"):
            lacking = places.lacking(layers)
            if not lacking:
                return places
            missing = min(missing, lacking, key=len)
    raise MappingError(
        f"{base.path} is not what {folder} was trained on: it has no weights for "
        f"{', '.join(ascii(layer)[1:-1][:80] for layer in missing[:3])} "
        f"({len(missing)} of {len(layers)} layers). Give {parameter('base')} the checkpoint of its "
        "base_model."
    )


def _names_in(base: Checkpoint, namings: Iterable[Naming]) -> Iterator[Mapping[str, str]]:
    """The tensors of a base by what they may be called: as in the file, or in memory."""
    yield {key: key for key in base.tensors}
    for naming in namings:
        if (in_memory := naming.in_memory) is None:
            continue
        for view in views(base, naming):
            named = ((key, naming.renamed(key, in_memory)) for key in view.tensors)
            whole = {name: f"{view.prefix}{key}" for key, name in named if name is not None}
            yield {name: key for name, key in whole.items() if key in base.tensors}


def _around(names: Mapping[str, str], first: str) -> Iterator[_AdapterNames]:
    """The places of tensors for each prefix that would make a base's tensor of the first name."""
    ending = first
    while ending:
        if ending in names:
            yield _AdapterNames(names, inner=first.removesuffix(ending))
        ending = ending.partition(".")[2]
    for name in names:
        if name.endswith(f".{first}"):
            yield _AdapterNames(names, outer=name.removesuffix(first))


def _merged(
    base: Checkpoint, key: str, layer: str, kept: Mapping[str, LazyTensor], scales: Scales
) -> LazyTensor:
    """A layer's weight with its product added, computed when it is read."""
    weight = base.tensors[key]
    try:
        low, high = (kept[layer + end] for end in FACTORS)
    except KeyError as error:
        shown = ascii(layer)[1:-1][:80]
        raise MappingError(
            f"the adapter has one factor alone of {shown}: save it again."
        ) from error
    if not _fit(weight.shape, low.shape, high.shape):
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


def _fit(weight: Shape, low: Shape, high: Shape) -> bool:
    """Whether two factors give a weight, of a linear layer or of a convolution."""
    square = all(size == 1 for size in high[2:])
    return (
        len(low) == len(high) and square and low[:1] == high[1:2] and (high[0], *low[1:]) == weight
    )
