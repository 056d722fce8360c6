"""Find the tensors of one network in a file, whatever modules a training script wrapped around it.

There is no list of wrappers. A publisher's naming has landmarks: keys that appear literally in its
rules, such as `patch_embed.proj.weight`. The part of a name before a landmark (`teacher.backbone.`,
`model.module.`) is a prefix under which a network may lie. Names of modules that only pass their
input on are removed everywhere. Blocks that training numbers in chunks get one number:
`blocks.2.7.norm1.weight` becomes `blocks.7.norm1.weight`.

The linear head of the network may have any name. It lies next to the network or in an enclosing
module.

A view is a checkpoint with the tensors of one network, by the names of one naming.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

from weights.errors import MappingError
from weights.files import Checkpoint
from weights.found_head import enclosing_prefixes, find_head, network_width
from weights.initializers import Shape
from weights.mapping import Naming, describe_misfits, plan_leaves, source_shapes
from weights.parameters import parameter
from weights.tensors import LazyTensor

WRAPPER_PREFIXES = "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."
"""Modules that PyTorch puts around others: of torch.compile, of sharded training, of activation
checkpointing."""

WRAPPER_PATTERN = re.compile(rf"(?:^|(?<=\.))(?:{'|'.join(map(re.escape, WRAPPER_PREFIXES))})")

CHUNKED_BLOCK = re.compile(r"(?<!\d)(\d+)\.(\d+)\.(.+)", re.DOTALL)
"""Block with two numbers: that of its chunk, and its own."""

AVERAGED = re.compile(r"(^|[._])(teacher|ema|averaged?|avg|swa|shadow|target_encoder)([._]|$)")
"""Names of the copy whose weights are averages over the steps of training. This is the copy to
use."""

LAST_STEP_NAME = "current_model_state"
"""Name that Lightning gives the weights of the last step if it saves their averages too. The
averages then have the usual name."""


MAX_CACHED_NAMES = 1 << 14
"""Number of names that are cached. It is larger than the number of names in a file."""

FindViews: TypeAlias = Callable[[Naming], Sequence[Checkpoint]]
"""Function that returns the views of a checkpoint in a naming."""


def views_of(checkpoint: Checkpoint, with_head: bool = True) -> FindViews:
    """Return a function that returns the views of a checkpoint in a naming.

    A view is a checkpoint with the tensors of one network, by the names of the naming. There is at
    least one view, even if the checkpoint contains no network of the naming: callers have to check
    that the tensors fit. If the checkpoint is itself a view in the naming and `with_head` is True,
    it is the only view. Views are searched only once for each naming.

    **Arguments:**

    - `checkpoint`: the checkpoint.
    - `with_head`: whether views include the linear head of the network.
    """

    def find_in_naming(naming: Naming) -> tuple[Checkpoint, ...]:
        if with_head and checkpoint.naming is not None and checkpoint.naming == naming:
            return (checkpoint,)
        if (naming, with_head) not in checkpoint.view_cache:
            checkpoint.view_cache[naming, with_head] = tuple(
                find_views(checkpoint, naming, with_head)
            )
        return checkpoint.view_cache[naming, with_head]

    return find_in_naming


def find_views(
    checkpoint: Checkpoint, naming: Naming, with_head: bool = True
) -> Iterator[Checkpoint]:
    """Yield a view for each network of a naming that a checkpoint contains.

    A view is a checkpoint with all tensors under one prefix, by their names without the prefix. A
    network lies under each prefix that the naming's landmarks have in the file. If the file
    contains no landmark, one view with an empty prefix is yielded.

    **Arguments:**

    - `checkpoint`: the checkpoint.
    - `naming`: the naming.
    - `with_head`: whether views include the linear head of the network. If False, modules that the
      naming does not have are left out too.
    """
    tensors = _drop_wrapper_prefixes(checkpoint.tensors)
    landmarks = naming.landmarks
    landmark_keys = [key for key in tensors if key.endswith(landmarks)]
    is_wrapped = (
        landmark_keys or network_width(naming, tensors) or any(map(_split_chunked_name, tensors))
    )
    if with_head and not is_wrapped:
        yield replace(checkpoint, tensors=tensors, naming=naming)
        return
    prefixes = dict.fromkeys(
        key.removesuffix(landmark)
        for landmark in landmarks
        for key in landmark_keys
        if key == landmark or key.endswith(f".{landmark}")
    )
    for prefix in prefixes or ("",):
        network = {k.removeprefix(prefix): t for k, t in tensors.items() if k.startswith(prefix)}
        network = _join_block_numbers(network, naming)
        head = find_head(tensors, prefix, network, naming)
        head_ids = head.tensor_ids if head else frozenset()
        network = {key: t for key, t in network.items() if id(t) not in head_ids}
        used_ids = {id(tensor) for tensor in network.values()}
        if not with_head:
            head = None
            network = _drop_layers_on_top(network, naming)
            used_ids = {id(tensor) for tensor in network.values()}
        elif head:
            network, used_ids = {**network, **head.tensors}, used_ids | head_ids
        other_tensors = {key: t for key, t in tensors.items() if id(t) not in used_ids}
        yield replace(
            checkpoint,
            tensors=network,
            naming=naming,
            prefix=checkpoint.prefix + prefix,
            head=head.name if head and head.is_custom else checkpoint.head,
            head_is_custom=bool(head and head.is_custom),
            head_is_convolution=bool(head and head.convolution),
            other_tensors={
                **checkpoint.other_tensors,
                **{checkpoint.prefix + k: t for k, t in other_tensors.items()},
            },
        )


def _drop_layers_on_top(network: Mapping[str, LazyTensor], naming: Naming) -> dict[str, LazyTensor]:
    """Return the tensors of a network without its linear heads, and without modules that its naming
    does not have."""
    modules = {key.partition(".")[0] for key in network if naming.has_key(key)}
    return {
        key: tensor
        for key, tensor in network.items()
        if key.rpartition(".")[0] not in naming.heads
        and ("." not in key or key.partition(".")[0] in modules)
    }


def _drop_wrapper_prefixes(tensors: Mapping[str, LazyTensor]) -> Mapping[str, LazyTensor]:
    """Return the tensors under shorter names, without modules such as `_orig_mod.` that only pass
    their input on.

    Return the tensors unchanged if two of them would get the same name.
    """
    names = "\n".join(tensors)
    if not any(name in names for name in WRAPPER_PREFIXES):
        return tensors
    shortened = {WRAPPER_PATTERN.sub("", key): tensor for key, tensor in tensors.items()}
    return shortened if len(shortened) == len(tensors) else tensors


@lru_cache(MAX_CACHED_NAMES)
def _split_chunked_name(key: str) -> tuple[str, int, int, str] | None:
    """Return the parts of a name with two block numbers: the text before the numbers, both numbers,
    and the text after them.

    Return None for other names.
    """
    match = CHUNKED_BLOCK.search(key)
    return match and (key[: match.start()], int(match[1]), int(match[2]), match[3])


def _join_block_numbers(tensors: dict[str, LazyTensor], naming: Naming) -> dict[str, LazyTensor]:
    """Return the tensors by names with one number for each block.

    A name with the number of a chunk and that of a block gets the number of the block alone, if the
    naming has the resulting key. If the numbers of blocks start again in each chunk, the blocks are
    numbered consecutively. Other names are unchanged.
    """
    chunked = {key: parts for key in tensors if (parts := _split_chunked_name(key))}
    chunked = {
        key: (beginning, chunk, block, ending)
        for key, (beginning, chunk, block, ending) in chunked.items()
        if naming.find_leaf(key) is None
        and naming.find_leaf(f"{beginning}{block}.{ending}") is not None
    }
    # Most scripts continue to count in the next chunk. If a script starts again in each chunk,
    # block numbers repeat, so the blocks are renumbered.
    blocks = defaultdict(set)
    for beginning, *numbers, _ in chunked.values():
        blocks[beginning].add((numbers[0], numbers[1]))
    new_numbers = {
        (part, *numbers): number if len({block for _, block in pairs}) < len(pairs) else numbers[1]
        for part, pairs in blocks.items()
        for number, numbers in enumerate(sorted(pairs))
    }
    return {
        f"{parts[0]}{new_numbers[parts[:3]]}.{parts[3]}"
        if (parts := chunked.get(key))
        else key: tensor
        for key, tensor in tensors.items()
    }


def find_other_copies(view: Checkpoint, prefixes: Iterable[str]) -> tuple[str, ...]:
    """Return the prefixes of other copies of a view's network in a file.

    Each is shortened to the first segment in which it differs from the prefix of the view. The
    prefix of the view itself, and those of modules that enclose it, are left out.

    **Arguments:**

    - `view`: the view: a checkpoint with the tensors of one network.
    - `prefixes`: the prefixes of all copies.
    """
    copies = (
        _diverging_prefix(view.prefix, prefix) for prefix in prefixes if prefix != view.prefix
    )
    return tuple(filter(None, copies))


def _diverging_prefix(prefix: str, other_prefix: str) -> str:
    """Return the beginning of `other_prefix` up to and including the first segment that differs
    from `prefix`.

    The result is empty if `prefix` begins with `other_prefix`.
    """
    shared = next(outer for outer in enclosing_prefixes(prefix) if other_prefix.startswith(outer))
    step = other_prefix.removeprefix(shared).partition(".")[0]
    return f"{shared}{step}." if step else ""


def narrow_to_model(
    checkpoint: Checkpoint, naming: Naming, shapes: Mapping[str, Shape]
) -> Checkpoint:
    """Return the view of a checkpoint that matches a model.

    A view is a checkpoint with the tensors of one network. If several views match, return the copy
    with averaged weights (see `choose_prefix`). If none matches, return the view with the most
    tensors that the model needs.

    **Arguments:**

    - `checkpoint`: the checkpoint.
    - `naming`: the naming of the views.
    - `shapes`: the shapes of the model's leaves by path.

    **Raises** `MappingError` if several views match and the copy with averaged weights is not
    unique.
    """
    views = views_of(checkpoint)(naming)
    plans = plan_leaves(naming.rules, shapes)
    matching = [view for view in views if not describe_misfits(naming, plans, view.tensors)]
    if not matching:
        needed_shapes = source_shapes(plans)
        return max(views, key=lambda view: len(needed_shapes.keys() & view.tensors.keys()))
    prefix = choose_prefix([view.prefix for view in matching], "", checkpoint.path)
    return next(view for view in matching if view.prefix == prefix)


def choose_prefix(prefixes: Sequence[str], take: str, path: object) -> str:
    """Return the prefix of the network to use, out of several networks in a file.

    **Arguments:**

    - `prefixes`: the prefixes of the networks.
    - `take`: the user's choice: a prefix, a segment of one between dots, or else a part of one
      between dots and underscores. If it is empty, a single prefix is returned. Of several
      prefixes, that of the copy with averaged weights is returned. Such a copy has a name such as
      `teacher` or `ema`.
    - `path`: the path of the file, for the message.

    **Raises** `MappingError` unless exactly one prefix qualifies.
    """
    choices = ", ".join(repr(prefix.rstrip(".")) for prefix in prefixes)
    if take:
        segments = {prefix: re.split(r"\.", prefix.rstrip(".")) for prefix in prefixes}
        exact_matches = [
            p for p in prefixes if take.rstrip(".") == p.rstrip(".") or take in segments[p]
        ]
        matches = exact_matches or [p for p in prefixes if take in re.split(r"[._]", p)]
        if len(matches) == 1:
            return matches[0]
        raise MappingError(
            f"{path} holds {len(matches)} networks {take!r}, of {len(prefixes)} in all: "
            f"set {parameter('take')} to one of {choices}."
        )
    if len(prefixes) == 1:
        return prefixes[0]
    words = {prefix: prefix.rstrip(".").split(".") for prefix in prefixes}
    shared_words = set.intersection(*map(set, words.values()))
    distinct_words = {
        prefix: ".".join(w for w in words[prefix] if w not in shared_words) for prefix in prefixes
    }
    averaged = [prefix for prefix in prefixes if AVERAGED.search(distinct_words[prefix])]
    averaged = averaged or [prefix for prefix in prefixes if LAST_STEP_NAME not in words[prefix]]
    if len(averaged) == 1:
        return averaged[0]
    raise MappingError(
        f"{path} holds {len(prefixes)} networks: choose one with {parameter('take')}, of {choices}."
    )


def summarize_names(names: Iterable[str]) -> str:
    """Return a short text that names the modules of many tensors, such as `head.*,
    decoder.layers.*`.

    Modules are shortened to two segments and end before the number of a block. The six with the
    most tensors are named, and the number of the others follows. A module with one tensor has no
    `.*`. The text is empty if there are no names.
    """
    counts = Counter(re.split(r"\.\d+(?=\.|$)|\.[^.]*$", name, maxsplit=1)[0] for name in names)
    prefix_counts: Counter[str] = Counter()
    for name, count in counts.items():
        prefix_counts[".".join(name.split(".")[:2])] += count
    texts = [f"{name}.*" if count > 1 else name for name, count in prefix_counts.most_common(6)]
    return ", ".join(texts) + (
        f" and {len(prefix_counts) - 6} more" if len(prefix_counts) > 6 else ""
    )
