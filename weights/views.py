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
from functools import lru_cache
from typing import TypeAlias

from weights.errors import MappingError
from weights.files import Checkpoint
from weights.found_head import find_head, network_width, outwards
from weights.initializers import Shape
from weights.mapping import Naming, mismatches, plan, source_shapes
from weights.parameters import parameter
from weights.tensors import LazyTensor

PASSING_NAMES = "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."
"""Modules of PyTorch around others: of torch.compile, of sharded training, of recomputation."""

PASSING = re.compile(rf"(?:^|(?<=\.))(?:{'|'.join(map(re.escape, PASSING_NAMES))})")

CHUNKED = re.compile(r"(?<!\d)(\d+)\.(\d+)\.(.+)", re.DOTALL)
"""A block that is counted twice: the number of its chunk, and its own."""

AVERAGED = re.compile(r"(^|[._])(teacher|ema|averaged?|avg|swa|shadow|target_encoder)([._]|$)")
"""What the copy is called whose weights are means over the steps of training: the one to use."""

OF_LAST_STEP = "current_model_state"
"""What Lightning calls the weights beside their mean, which has the usual name then."""


LOOKED_AT = 1 << 14
"""Names that are remembered: more than a file has."""

Parts: TypeAlias = Callable[[Naming], Sequence[Checkpoint]]
"""What of a checkpoint each naming finds."""


def views_of(checkpoint: Checkpoint, with_head: bool = True) -> Parts:
    """The views of a checkpoint, looked for once in each naming, whoever asks. The view of a
    network in a naming is a view of itself in that."""

    def look(naming: Naming) -> tuple[Checkpoint, ...]:
        if with_head and checkpoint.naming is not None and checkpoint.naming == naming:
            return (checkpoint,)
        if (naming, with_head) not in checkpoint.found:
            checkpoint.found[naming, with_head] = tuple(views(checkpoint, naming, with_head))
        return checkpoint.found[naming, with_head]

    return look


def views(checkpoint: Checkpoint, naming: Naming, with_head: bool = True) -> Iterator[Checkpoint]:
    """Part under each prefix behind which a naming's landmarks come, by the naming's names,
    with the linear layer on it or without; a checkpoint as it is where there is none."""
    tensors = _without_passing(checkpoint.tensors)
    marks = naming.landmarks
    ending = [key for key in tensors if key.endswith(marks)]  # few of many
    is_wrapped = ending or network_width(naming, tensors) or any(map(_chunked, tensors))
    if with_head and not is_wrapped:
        yield replace(checkpoint, tensors=tensors, naming=naming)
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
        head = find_head(tensors, prefix, inside, naming)
        taken = head.taken if head else frozenset()
        inside = {key: t for key, t in inside.items() if id(t) not in taken}
        used = {id(tensor) for tensor in inside.values()}
        if not with_head:
            head = None
            inside = _without_layers_on_top(inside, naming)
            used = {id(tensor) for tensor in inside.values()}
        elif head:
            inside, used = {**inside, **head.tensors}, used | taken
        others = {key: t for key, t in tensors.items() if id(t) not in used}
        yield replace(
            checkpoint,
            tensors=inside,
            naming=naming,
            prefix=checkpoint.prefix + prefix,
            head=head.name if head and head.is_custom else checkpoint.head,
            head_is_custom=bool(head and head.is_custom),
            head_is_convolution=bool(head and head.convolution),
            others={**checkpoint.others, **{checkpoint.prefix + k: t for k, t in others.items()}},
        )


def _without_layers_on_top(
    inside: Mapping[str, LazyTensor], naming: Naming
) -> dict[str, LazyTensor]:
    """Return the tensors of a network without those of heads and of modules that it has not."""
    modules = {key.partition(".")[0] for key in inside if naming.knows(key)}
    return {
        key: tensor
        for key, tensor in inside.items()
        if key.rpartition(".")[0] not in naming.heads
        and ("." not in key or key.partition(".")[0] in modules)
    }


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


def copies_beside(view: Checkpoint, prefixes: Iterable[str]) -> tuple[str, ...]:
    """Return what the keys of other copies of a network begin with, and of all that lies beside
    each, from the prefixes of the copies."""
    copies = (_parting(view.prefix, other) for other in prefixes if other != view.prefix)
    return tuple(filter(None, copies))


def _parting(prefix: str, other: str) -> str:
    """Where another network lies, up to the part of its prefix that is no longer one's own."""
    shared = next(outer for outer in outwards(prefix) if other.startswith(outer))
    step = other.removeprefix(shared).partition(".")[0]
    return f"{shared}{step}." if step else ""


def narrowed(checkpoint: Checkpoint, naming: Naming, shapes: Mapping[str, Shape]) -> Checkpoint:
    """The part of a checkpoint that is a model's with these leaves; where none fits, the one of
    which a naming knows most. **Raises** `MappingError` where several fit."""
    parts = views_of(checkpoint)(naming)
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
