"""Find the linear head of a network, by the tensors around it instead of its name.

The input of the head is the pooled output of the network, and it is the only layer outside of the
network. A file with other trained tensors was trained for another task and has no such layer.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from weights.initializers import Float32, Shape
from weights.mapping import Naming, leaf_shape
from weights.tensors import LazyTensor
from weights.training_tensors import POOLER, exclude_harmless_tensors
from weights.transforms import zeros

CONCATENATED = (1, 2, 5)
"""Numbers of vectors that a layer on a network with a class token may take: the class token alone,
the class token and the mean of the patches, or these and the class tokens of the three blocks
before.

Four is left out: DINO's evaluation takes four class tokens and no mean.

Source: `LinearClassifier` in `dinov2/eval/linear.py` and `hub/classifiers.py` of
facebookresearch/dinov2.
"""

TORCH_HUB = "linear_head"
"""Name that torch.hub gives the layer on one of Meta's backbones."""


class FoundHead(NamedTuple):
    """Linear head of a network that was found in a file.

    **Arguments:**

    - `name`: the name of the layer in the file.
    - `tensors`: the tensors of the layer, by the names that the naming gives them.
    - `tensor_ids`: the identities (`id`) of these tensors in the file.
    - `is_custom`: whether a user has added the layer, so that the library of the network does not
      determine its input.
    - `convolution`: whether it is a 1 x 1 convolution.
    """

    name: str
    tensors: dict[str, LazyTensor]
    tensor_ids: frozenset[int]
    is_custom: bool
    convolution: bool = False


def find_head(
    tensors: Mapping[str, LazyTensor],
    prefix: str,
    network: Mapping[str, LazyTensor],
    naming: Naming,
) -> FoundHead | None:
    """Return the linear head of a network, if it is the only layer outside of the network.

    Of the modules around the network, the innermost one with further trained tensors is searched.
    Return None if there is no such layer, if there are other layers in that module, if the layer
    does not take the network's output, or if the naming has no head.

    **Arguments:**

    - `tensors`: all tensors of the file by name.
    - `prefix`: the prefix of the network's names in the file.
    - `network`: the tensors of the network, by the names that the naming gives them.
    - `naming`: the naming of the network.
    """
    width = network_width(naming, network)
    if not naming.head or not width:
        return None
    if f"{naming.head}.weight" in network:
        return _match_publisher_head(prefix, network, naming)
    known_ids = {id(tensor) for key, tensor in network.items() if naming.has_key(key)}
    for outer in enclosing_prefixes(prefix):
        candidates = {
            k: t for k, t in tensors.items() if k.startswith(outer) and id(t) not in known_ids
        }
        candidates = exclude_harmless_tensors(candidates)
        layers = {key.rpartition(".")[0] for key in candidates if not POOLER.search(key)}
        if layers:
            return _match_single_layer(
                candidates, layers, outer, prefix, naming, _possible_widths(naming, network, width)
            )
    return None


def _match_publisher_head(
    prefix: str, network: Mapping[str, LazyTensor], naming: Naming
) -> FoundHead | None:
    """Return the linear head that has the publisher's name and lies inside the module of the
    network.

    It is a custom layer, because the publisher has it outside of that module. Return None if the
    publisher has it inside too (`Naming.wrappers` is empty). It is then a part of the network.
    """
    if not naming.wrappers:
        return None
    keys = [key for key in network if key.rpartition(".")[0] in naming.heads]
    tensors = {key: network[key] for key in keys}
    tensor_ids = frozenset(map(id, tensors.values()))
    return FoundHead(prefix + naming.head, tensors, tensor_ids, is_custom=True)


def _possible_widths(
    naming: Naming, network: Mapping[str, LazyTensor], width: int
) -> tuple[int, ...]:
    """Return the numbers of input channels that the linear head of a network may have.

    They are `width`, the number of channels of a token, and its multiples in `CONCATENATED` if the
    network has a class token.
    """
    has_token = leaf_shape(naming, network, "cls_token") is not None
    return tuple(count * width for count in (CONCATENATED if has_token else (1,)))


def _match_single_layer(
    candidates: Mapping[str, LazyTensor],
    layers: set[str],
    outer: str,
    prefix: str,
    naming: Naming,
    widths: tuple[int, ...],
) -> FoundHead | None:
    """Return the linear head of a network if there is no other layer outside of the network.

    The head may also be the pair of layers that the publisher has. Return None if there are other
    tensors, or if the layer does not take one of the widths.

    **Arguments:**

    - `candidates`: the tensors under `outer` that are not the network's.
    - `layers`: the names of the modules that these tensors belong to.
    - `outer`: the prefix of the module in which the layer is searched.
    - `prefix`: the prefix of the network's names.
    - `naming`: the naming of the network.
    - `widths`: the possible numbers of input channels.
    """
    modules = {f"{outer}{head}": head for head in naming.heads}
    if layers != {*modules}:
        if len(layers) > 1:
            return None
        modules = {next(iter(layers)): naming.head}
    if len(candidates) != sum(key.rpartition(".")[0] in modules for key in candidates):
        return None  # there is a pooler too, whose output may be the input of the layer
    if not all(_is_linear(candidates, module, widths) for module in modules):
        return None
    name = next(iter(modules))
    wrapper = prefix.removeprefix(outer).rstrip(".")
    is_usual = name == outer + naming.head and wrapper in naming.wrappers
    weight = candidates[f"{name}.weight"]
    return FoundHead(
        name,
        {
            key: t
            for module, head in modules.items()
            for key, t in _layer_tensors(candidates, module, head).items()
        },
        frozenset(map(id, candidates.values())),
        is_custom=not is_usual and name.rpartition(".")[2] != TORCH_HUB,
        convolution=len(weight.shape) == 4,
    )


def _layer_tensors(
    candidates: Mapping[str, LazyTensor], module: str, name: str
) -> dict[str, LazyTensor]:
    """Return the weight and the bias of a linear layer, by the names that the naming gives them.

    The weight of a convolution is returned as a matrix. A missing bias is replaced by zeros.

    **Arguments:**

    - `candidates`: tensors of the file, including those of the layer.
    - `module`: the name of the layer in the file.
    - `name`: the name of the layer in the naming.
    """
    weight = _as_matrix(candidates[f"{module}.weight"])
    bias = candidates.get(f"{module}.bias") or _zero_bias(weight.shape)
    return {f"{name}.weight": weight, f"{name}.bias": bias}


def _is_linear(candidates: Mapping[str, LazyTensor], module: str, widths: tuple[int, ...]) -> bool:
    """Return True if a module is a linear layer, or a 1 x 1 convolution, with one of these numbers
    of input channels.

    `candidates` are tensors of the file by name, including those of the module.
    """
    shapes = {
        key.removeprefix(f"{module}."): t.shape
        for key, t in candidates.items()
        if _is_in_module(key, module)
    }
    weight = shapes.pop("weight", ())
    bias = shapes.pop("bias", weight[:1])
    is_matrix = len(weight) == 2 or (len(weight) == 4 and weight[2:] == (1, 1))
    return not shapes and is_matrix and weight[1] in widths and bias == weight[:1]


def _is_in_module(key: str, module: str) -> bool:
    """Return True if `key` is the name of a tensor directly in the module."""
    return key.rpartition(".")[0] == module


def _as_matrix(weight: LazyTensor) -> LazyTensor:
    """Return the weight of a 1 x 1 convolution as that of a linear layer. A matrix is returned
    unchanged."""
    if len(weight.shape) == 2:
        return weight

    def read() -> Float32:
        return weight.read()[..., 0, 0]

    return replace(weight, shape=weight.shape[:2], read=read)


def _zero_bias(shape: Shape) -> LazyTensor:
    """Return a bias of zeros for a layer whose weight has this shape."""
    return LazyTensor(shape[:1], "float32", lambda: zeros(shape[:1]))


def network_width(naming: Naming, tensors: Mapping[str, LazyTensor]) -> int:
    """Return the number of channels of a network's tokens: the length of its final norm.

    Return 0 if the tensors contain no such norm. `tensors` are those of a file by name.
    """
    shape = leaf_shape(naming, tensors, "norm.weight") or ()
    return shape[0] if len(shape) == 1 else 0


def enclosing_prefixes(prefix: str) -> list[str]:
    """Return a prefix and the prefixes of the modules around it, from the innermost to the
    outermost, which is empty.

    For `"model.backbone."` they are `"model.backbone."`, `"model."` and `""`.
    """
    parts = prefix.split(".")[:-1]
    return ["".join(f"{part}." for part in parts[:count]) for count in range(len(parts), -1, -1)]
