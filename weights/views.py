"""Which tensors of a file are one network's, whatever a training script wrapped that in.

There is no list of wrappers. A publisher's naming has keys that stand in it as they are, its
landmarks (`patch_embed.proj.weight`); whatever comes before one of them in a file
(`teacher.backbone.`, `model.module.`) is a prefix under which a network may lie. Names of modules
that only pass on what they hold are left out wherever they stand, and numbers of blocks that
training counts in chunks are joined: `blocks.2.7.norm1.weight` is `blocks.7.norm1.weight`.

A linear layer on top of the network has any name, and lies beside the network or further out.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import TypeAlias

from weights.errors import MappingError
from weights.files import Checkpoint
from weights.initializers import Shape
from weights.mapping import Naming, leaf_shape, mismatches, plan, source_shapes
from weights.parameters import parameter
from weights.tensors import FLOATS, LazyTensor
from weights.transforms import zeros

PASSING_NAMES = "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."
"""Modules of PyTorch around others: of torch.compile, of sharded training, of recomputation."""

PASSING = re.compile(rf"(?:^|(?<=\.))(?:{'|'.join(map(re.escape, PASSING_NAMES))})")

CHUNKED = re.compile(r"(?<!\d)(\d+)\.(\d+)\.(.+)", re.DOTALL)
"""A block that is counted twice: the number of its chunk, and its own."""

HEAD = re.compile(r"(.*_)?(head|heads|classifier|cls|fc|linear|logits)\d*")
"""What people call a layer that answers."""

TENSORS_OF_TRAINING = re.compile(
    r"(^|\.)(\w*optim\w*|dino_head|ibot_head|project(or|ion)\w*)(\.|$)"
)
"""What belongs to training alone, whatever it is called within."""

AVERAGED = re.compile(r"(^|[._])(teacher|ema|averaged?|avg|swa|shadow|target_encoder)([._]|$)")
"""What the copy is called whose weights are means over the steps of training: the one to use."""

OF_LAST_STEP = "current_model_state"
"""What Lightning calls the weights beside their mean, which has the usual name then."""


LOOKED_AT = 1 << 14
"""Names that are remembered: more than a file has."""

Parts: TypeAlias = Callable[[Naming], Sequence[Checkpoint]]
"""What of a checkpoint each naming finds."""


def views_of(checkpoint: Checkpoint, with_head: bool = True) -> Parts:
    """The views of a checkpoint, looked for once in each naming."""
    return cache(lambda naming: tuple(views(checkpoint, naming, with_head)))


def views(checkpoint: Checkpoint, naming: Naming, with_head: bool = True) -> Iterator[Checkpoint]:
    """Part under each prefix behind which a naming's landmarks come, by the naming's names,
    with the linear layer on it or without; a checkpoint as it is where there is none."""
    tensors = _without_passing(checkpoint.tensors)
    marks = naming.landmarks
    ending = [key for key in tensors if key.endswith(marks)]  # few of many
    if with_head and not ending and not _width(naming, tensors) and not any(map(_chunked, tensors)):
        yield replace(checkpoint, tensors=tensors)
        return
    prefixes = dict.fromkeys(
        key.removesuffix(mark)
        for mark in marks
        for key in ending
        if key == mark or key.endswith(f".{mark}")
    )
    for prefix in prefixes or ("",):
        inside = {k.removeprefix(prefix): t for k, t in tensors.items() if k.startswith(prefix)}
        inside = _joined(inside, naming)
        head, linear = _head(tensors, prefix, inside, naming) if with_head else ("", {})
        taken = {id(tensor) for tensor in linear.values()}
        inside = {key: t for key, t in inside.items() if id(t) not in taken} | linear
        if not with_head:
            inside = {k: t for k, t in inside.items() if k.rpartition(".")[0] not in naming.heads}
        used = {id(tensor) for tensor in inside.values()}
        others = {key: t for key, t in tensors.items() if id(t) not in used}
        yield replace(
            checkpoint,
            tensors=inside,
            prefix=checkpoint.prefix + prefix,
            head=head or checkpoint.head,
            others={**checkpoint.others, **{checkpoint.prefix + k: t for k, t in others.items()}},
        )


def _without_passing(tensors: Mapping[str, LazyTensor]) -> Mapping[str, LazyTensor]:
    names = "\n".join(tensors)
    if not any(name in names for name in PASSING_NAMES):
        return tensors
    short = {PASSING.sub("", key): tensor for key, tensor in tensors.items()}
    return short if len(short) == len(tensors) else tensors


@lru_cache(LOOKED_AT)
def _chunked(key: str) -> tuple[str, int, int, str] | None:
    """What comes before two numbers of a block, both of them, and what comes behind."""
    found = CHUNKED.search(key)
    return found and (key[: found.start()], int(found[1]), int(found[2]), found[3])


def _joined(tensors: dict[str, LazyTensor], naming: Naming) -> dict[str, LazyTensor]:
    """With one number for each block where there are two, if the naming has one."""
    chunked = {key: parts for key in tensors if (parts := _chunked(key))}
    chunked = {
        key: (before, chunk, own, behind)
        for key, (before, chunk, own, behind) in chunked.items()
        if naming.leaf(key) is None and naming.leaf(f"{before}{own}.{behind}") is not None
    }
    # Most count on from chunk to chunk; who begins again has every number several times.
    blocks = defaultdict(set)
    for before, *pair, _ in chunked.values():
        blocks[before].add((pair[0], pair[1]))
    numbers = {
        (part, *pair): number if len({own for _, own in pairs}) < len(pairs) else pair[1]
        for part, pairs in blocks.items()
        for number, pair in enumerate(sorted(pairs))
    }
    return {
        f"{parts[0]}{numbers[parts[:3]]}.{parts[3]}" if (parts := chunked.get(key)) else key: tensor
        for key, tensor in tensors.items()
    }


def _head(
    tensors: Mapping[str, LazyTensor],
    prefix: str,
    inside: Mapping[str, LazyTensor],
    naming: Naming,
) -> tuple[str, dict[str, LazyTensor]]:
    """The linear layer on a network: what it is called in a file where that is not its publisher's
    name, and its tensors by the naming's names. None where there are several, or it has its own."""
    own, width = naming.head, _width(naming, inside)
    if not own or not width or f"{own}.weight" in inside:
        return "", {}
    for outer in _outwards(prefix):
        if all(f"{outer}{head}.weight" in tensors for head in naming.heads):
            keys = (f"{head}.{leaf}" for head in naming.heads for leaf in ("weight", "bias"))
            return "", {key: tensors[outer + key] for key in keys if outer + key in tensors}
        heads = [
            name
            for name in _linear_layers(tensors, outer)
            if _takes(tensors[f"{outer}{name}.weight"].shape, width)
        ]
        if heads:
            (name, *more) = heads
            if more:
                break
            weight = tensors[f"{outer}{name}.weight"]
            bias = tensors.get(f"{outer}{name}.bias") or _no_bias(weight.shape)
            # torch.hub's name for it on a backbone of Meta's.
            usual = name in (own, "linear_head")
            called = "" if usual else f"{outer}{name}"
            return called, {f"{own}.weight": weight, f"{own}.bias": bias}
    return "", {}


def _no_bias(shape: Shape) -> LazyTensor:
    return LazyTensor(shape[:1], "float32", lambda: zeros(shape[:1]))


def _linear_layers(tensors: Mapping[str, LazyTensor], outer: str) -> list[str]:
    """The layers just below a prefix that are called as a head."""
    names = (key.removeprefix(outer) for key in tensors if key.startswith(outer))
    layers = (name.removesuffix(".weight") for name in names if name.endswith(".weight"))
    return [name for name in layers if HEAD.fullmatch(name)]


def _takes(shape: Shape, width: int) -> bool:
    """Whether a weight is that of a linear layer on vectors of a network, one or several."""
    return len(shape) == 2 and shape[1] > 0 and shape[1] % width == 0


def _width(naming: Naming, tensors: Mapping[str, LazyTensor]) -> int:
    """The channels of a network; 0 where nothing tells them."""
    shape = leaf_shape(naming, tensors, "norm.weight") or ()
    return shape[0] if len(shape) == 1 else 0


def _outwards(prefix: str) -> list[str]:
    """A prefix and those around it, the nearest first."""
    parts = prefix.split(".")[:-1]
    return ["".join(f"{part}." for part in parts[:end]) for end in range(len(parts), -1, -1)]


def heads_left(
    view: Checkpoint, naming: Naming, prefixes: Iterable[str], unused: Iterable[str]
) -> list[str]:
    """The tensors beside a network that answer something with its vectors, and would be left out.

    **Arguments:** a view, its naming, the prefixes of the other networks of the file, and the keys
    of the view that the network has no use for.
    """
    width = _width(naming, view.tensors)
    if not naming.head or not width:
        return []
    copies = [_parting(view.prefix, other) for other in prefixes if other != view.prefix]
    others = {**view.others, **{view.prefix + key: view.tensors[key] for key in unused}}
    # What ends in such a layer is the projection of self-supervised training.
    projected = {key.partition(".last_layer.")[0] for key in others if ".last_layer." in key}
    return [
        key
        for key, tensor in others.items()
        if tensor.dtype in FLOATS
        and _takes(tensor.shape, width)
        and any(HEAD.fullmatch(part) for part in key.split(".")[:-1])
        and not TENSORS_OF_TRAINING.search(key)
        and not key.startswith(tuple(f"{each}." for each in projected))
        and not key.startswith(tuple(filter(None, copies)))
    ]


def _parting(prefix: str, other: str) -> str:
    """Where another network lies, up to the part of its prefix that is no longer one's own."""
    shared = next(outer for outer in _outwards(prefix) if other.startswith(outer))
    step = other.removeprefix(shared).partition(".")[0]
    return f"{shared}{step}." if step else ""


def narrowed(checkpoint: Checkpoint, naming: Naming, shapes: Mapping[str, Shape]) -> Checkpoint:
    """The part of a checkpoint that is a model's with these leaves; where none fits, the one of
    which a naming knows most. **Raises** `MappingError` where several fit."""
    parts = list(views(checkpoint, naming))
    plans = plan(naming.rules, shapes)
    fitting = [each for each in parts if not mismatches(naming, plans, each.tensors)]
    if not fitting:
        needed = source_shapes(plans)
        return max(parts, key=lambda each: len(needed.keys() & each.tensors.keys()))
    prefix = choose_prefix([each.prefix for each in fitting], "", checkpoint.path)
    return next(each for each in fitting if each.prefix == prefix)


def choose_prefix(prefixes: Sequence[str], take: str, path: object) -> str:
    """Choose among several networks of a file, by what comes before its names: the one that is
    named, or the averaged copy. **Raises** `MappingError` where that is none, or several."""
    shown = ", ".join(repr(prefix.rstrip(".")) for prefix in prefixes)
    if take:
        parts = {prefix: re.split(r"\.", prefix.rstrip(".")) for prefix in prefixes}
        exact = [p for p in prefixes if take.rstrip(".") == p.rstrip(".") or take in parts[p]]
        near = exact or [p for p in prefixes if take in re.split(r"[._]", p)]
        if len(near) == 1:
            return near[0]
        raise MappingError(
            f"{path} holds {len(near)} networks {take!r}, of {len(prefixes)} in all: "
            f"{parameter('take')} names one of {shown}."
        )
    if len(prefixes) == 1:
        return prefixes[0]
    words = {prefix: prefix.rstrip(".").split(".") for prefix in prefixes}
    common = set.intersection(*map(set, words.values()))
    own = {prefix: ".".join(w for w in words[prefix] if w not in common) for prefix in prefixes}
    averaged = [prefix for prefix in prefixes if AVERAGED.search(own[prefix])]
    averaged = averaged or [prefix for prefix in prefixes if OF_LAST_STEP not in words[prefix]]
    if len(averaged) == 1:
        return averaged[0]
    raise MappingError(
        f"{path} holds {len(prefixes)} networks, and which is meant is not said: name one with "
        f"{parameter('take')}, of {shown}."
    )


def grouped(names: Iterable[str]) -> str:
    """Names of tensors in a few words: `head.*, decoder.layers.*`."""
    counts = Counter(re.sub(r"\.[^.]*$", "", re.split(r"\.\d+(?=\.|$)", name)[0]) for name in names)
    outer: Counter[str] = Counter()
    for name, count in counts.items():
        outer[".".join(name.split(".")[:2])] += count
    shown = [f"{name}.*" if count > 1 else name for name, count in outer.most_common(6)]
    return ", ".join(shown) + (f" and {len(outer) - 6} more" if len(outer) > 6 else "")
