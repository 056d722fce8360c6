"""The linear layer on a network, known by the tensors around it and not by its name.

It takes what the network pools and stands alone: a file that has other trained tensors beside it
was trained to answer something else, and has no such layer.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from weights.initializers import Float32, Shape
from weights.leftover import POOLER, may_change_answer
from weights.mapping import Naming, leaf_shape
from weights.tensors import LazyTensor
from weights.transforms import zeros

CONCATENATED = (1, 2, 5)
"""How many vectors of a network with a class token a layer may take side by side: one, the class
token and the mean of the patches, or those with the class tokens of three blocks before.

Four are left out: DINO's evaluation takes four class tokens, and no mean.

Source: `LinearClassifier` in `dinov2/eval/linear.py` and `hub/classifiers.py` of
facebookresearch/dinov2.
"""

TORCH_HUB = "linear_head"
"""What torch.hub calls the layer on a backbone of Meta's."""


class FoundHead(NamedTuple):
    """A linear layer on a network.

    `name` is what the file calls it, `tensors` are its own by the naming's names, and `taken` the
    identities of those of the file. It `is_custom` where somebody has put it on the network, and
    the library of the network does not say what it takes. A `convolution` is of 1 x 1.
    """

    name: str
    tensors: dict[str, LazyTensor]
    taken: frozenset[int]
    is_custom: bool
    convolution: bool = False


def find_head(
    tensors: Mapping[str, LazyTensor],
    prefix: str,
    inside: Mapping[str, LazyTensor],
    naming: Naming,
) -> FoundHead | None:
    """Return the one linear layer on a network, or None where there is none, or more than that.

    **Arguments:** all tensors of a file, the prefix of the network, its tensors by the naming's
    names, and that naming.
    """
    width = network_width(naming, inside)
    if not naming.head or not width:
        return None
    if f"{naming.head}.weight" in inside:
        return _inner_head(prefix, inside, naming)
    known = {id(tensor) for key, tensor in inside.items() if naming.knows(key)}
    for outer in outwards(prefix):
        rest = {k: t for k, t in tensors.items() if k.startswith(outer) and id(t) not in known}
        rest = may_change_answer(rest)
        layers = {key.rpartition(".")[0] for key in rest if not POOLER.search(key)}
        if layers:
            return _only_layer(rest, layers, outer, prefix, naming, _widths(naming, inside, width))
    return None


def _inner_head(prefix: str, inside: Mapping[str, LazyTensor], naming: Naming) -> FoundHead | None:
    """Return a layer of the publisher's name in the network itself, where a publisher has none."""
    if not naming.wrappers:
        return None
    keys = [key for key in inside if key.rpartition(".")[0] in naming.heads]
    own = {key: inside[key] for key in keys}
    taken = frozenset(map(id, own.values()))
    return FoundHead(prefix + naming.head, own, taken, is_custom=True)


def _widths(naming: Naming, inside: Mapping[str, LazyTensor], width: int) -> tuple[int, ...]:
    """The channels that a linear layer on a network may take."""
    has_token = leaf_shape(naming, inside, "cls_token") is not None
    return tuple(count * width for count in (CONCATENATED if has_token else (1,)))


def _only_layer(
    rest: Mapping[str, LazyTensor],
    layers: set[str],
    outer: str,
    prefix: str,
    naming: Naming,
    widths: tuple[int, ...],
) -> FoundHead | None:
    """Return the only layer of some tensors, or the pair that a publisher has."""
    stems = {f"{outer}{head}": head for head in naming.heads}
    if layers != {*stems}:
        if len(layers) > 1:
            return None
        stems = {next(iter(layers)): naming.head}
    if len(rest) != sum(key.rpartition(".")[0] in stems for key in rest):
        return None  # a pooler beside it, which the layer may take
    if not all(_is_linear(rest, stem, widths) for stem in stems):
        return None
    name = next(iter(stems))
    module = prefix.removeprefix(outer).rstrip(".")
    is_usual = name == outer + naming.head and module in naming.wrappers
    weight = rest[f"{name}.weight"]
    return FoundHead(
        name,
        {key: t for stem, own in stems.items() for key, t in _layer(rest, stem, own).items()},
        frozenset(map(id, rest.values())),
        is_custom=not is_usual and name.rpartition(".")[2] != TORCH_HUB,
        convolution=len(weight.shape) == 4,
    )


def _layer(rest: Mapping[str, LazyTensor], stem: str, own: str) -> dict[str, LazyTensor]:
    """Return weight and bias of a layer by the naming's names."""
    weight = _as_matrix(rest[f"{stem}.weight"])
    bias = rest.get(f"{stem}.bias") or _no_bias(weight.shape)
    return {f"{own}.weight": weight, f"{own}.bias": bias}


def _is_linear(rest: Mapping[str, LazyTensor], stem: str, widths: tuple[int, ...]) -> bool:
    """Whether the tensors of a module are weight and bias of a linear layer of these widths, or of
    a convolution of 1 x 1."""
    own = {key.removeprefix(f"{stem}."): t.shape for key, t in rest.items() if _in(key, stem)}
    weight = own.pop("weight", ())
    bias = own.pop("bias", weight[:1])
    is_matrix = len(weight) == 2 or (len(weight) == 4 and weight[2:] == (1, 1))
    return not own and is_matrix and weight[1] in widths and bias == weight[:1]


def _in(key: str, stem: str) -> bool:
    return key.rpartition(".")[0] == stem


def _as_matrix(weight: LazyTensor) -> LazyTensor:
    """Return the weight of a convolution of 1 x 1 as that of a linear layer."""
    if len(weight.shape) == 2:
        return weight

    def read() -> Float32:
        return weight.read()[..., 0, 0]

    return replace(weight, shape=weight.shape[:2], read=read)


def _no_bias(shape: Shape) -> LazyTensor:
    return LazyTensor(shape[:1], "float32", lambda: zeros(shape[:1]))


def network_width(naming: Naming, tensors: Mapping[str, LazyTensor]) -> int:
    """Return the channels of a network's tokens; 0 where no tensor determines them."""
    shape = leaf_shape(naming, tensors, "norm.weight") or ()
    return shape[0] if len(shape) == 1 else 0


def outwards(prefix: str) -> list[str]:
    """Return a prefix and those around it, the nearest first."""
    parts = prefix.split(".")[:-1]
    return ["".join(f"{part}." for part in parts[:end]) for end in range(len(parts), -1, -1)]
