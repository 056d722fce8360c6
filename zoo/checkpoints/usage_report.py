"""Report which tensors of a checkpoint a network uses, and refuse to ignore trained tensors."""

from collections.abc import Iterable, Mapping
from functools import cache
from itertools import takewhile
from pathlib import Path

from weights import Checkpoint
from weights.errors import MappingError
from weights.mapping import find_unrelated_keys, plan_leaves
from weights.parameters import parameter
from weights.progress import print_note
from weights.tensors import LazyTensor
from weights.training_tensors import POOLER, exclude_harmless_tensors, has_one_element
from weights.views import find_other_copies, summarize_names, views_of
from zoo.architectures.kinds import architecture_of
from zoo.architectures.library_settings import Settings
from zoo.checkpoints.candidates import Candidate, find_candidates
from zoo.checkpoints.settings.settings_files import CONFIG
from zoo.checkpoints.source import GivenCheckpoint
from zoo.common.errors import BadRequest


def check_head_input(candidate: Candidate, settings: Settings | None) -> None:
    """Check that it is known which vector of the network a custom head takes, such as the class
    token or the mean of the patches.

    **Raises** `BadRequest` if several vectors of the network have the width of the head and no
    setting selects one, and `MappingError` if no library defines a head on vectors of this network.
    """
    view, config = candidate.view, candidate.config
    if not candidate.has_custom_head(settings):
        return
    choices = architecture_of(config).custom_head_inputs(config)
    if choices is None:
        raise MappingError(
            f"{view.path} has a linear layer `{view.head}` on the network, as wide as several of "
            "its vectors, and no library says which they are: leave it out with "
            f"{parameter('without_head')}, or export the whole of your network with "
            "`converter.to_onnx`."
        )
    if not choices and view.head_is_convolution:
        choices = {"avg": architecture_of(config).describe_head_input(config)}
    if not choices or (settings is not None and settings.pool in choices):
        return
    alternatives = " or ".join(
        f'{{"global_pool": "{pool}"}} ({description})' for pool, description in choices.items()
    )
    raise BadRequest(
        f"{view.path} has a linear layer `{view.head}` on the network, and its tensors do not show "
        f"which vector it takes: write {alternatives} into a {CONFIG} beside it, or leave it out "
        f"with {parameter('without_head')}."
    )


def report_used_tensors(
    candidate: Candidate, settings: Settings | None, request: GivenCheckpoint
) -> None:
    """Print which network was read from a checkpoint, and which tensors and objects were not used.

    Nothing is printed if the whole file was used under its own names. Unless the request leaves out
    the head, **raises** `MappingError` if an unused tensor was trained and may change the answer,
    and `BadRequest` if the input of a custom head is not known.
    """
    # JAX is imported only where there is a model to build.
    from zoo.checkpoints.load import model_shapes

    view, config = candidate.view, candidate.config
    needed = plan_leaves(candidate.naming.rules, model_shapes(config))
    unused_keys = find_unrelated_keys(candidate.naming, needed, view.tensors)
    unused_tensors = {
        **{view.prefix + key: view.tensors[key] for key in unused_keys},
        **view.other_tensors,
    }
    if not request.without_head:
        _check_unused_tensors(candidate, unused_tensors, request.path)
        check_head_input(candidate, settings)
    kind = architecture_of(config)
    has_head = config.classes and kind.gives_features and config != candidate.published_config
    if not (view.prefix or unused_tensors or has_head or view.objects or view.unread):
        return
    prefix = f" from `{view.prefix}`" if view.prefix else ""
    sentences = [f"read as {candidate.display_name}{prefix}"]
    if has_head or (config.classes and view.head):
        layer = f"head `{view.head}`" if view.head else "classifier"
        sentences.append(f"its {layer} gives logits from {kind.describe_head_input(config)}")
    if unused_tensors:
        count = len(view.tensors) + len(view.other_tensors)
        sentences.append(
            f"{len(unused_tensors)} of {count} tensors were not used: "
            f"{summarize_names(unused_tensors)}"
        )
    if view.objects:
        sentences.append(f"objects that were passed over: {_join_objects(view)}")
    if view.unread:
        sentences.append(f"files beside it that were not read: {', '.join(view.unread[:6])}")
    _print_once(request.path, "; ".join(sentences))


def _check_unused_tensors(
    candidate: Candidate, unused_tensors: Mapping[str, LazyTensor], path: Path
) -> None:
    """Check that the tensors that a network does not use cannot change its answer.

    **Raises** `MappingError`, with the `path` of the file, if one of them can.
    """
    if unexplained := _find_unexplained(candidate, unused_tensors):
        raise MappingError(
            f"{path} has trained tensors that the network of the zoo does not use "
            f"({_join_modules(unexplained)}). A head is read if it is one linear layer on what the "
            f"network pools and nothing else. Leave out what is on the network with "
            f"{parameter('without_head')}, or export the whole of your network with "
            "`converter.to_onnx`."
        )


def _join_modules(keys: Iterable[str]) -> str:
    """Return the names of the modules that hold these tensors, separated by commas. Only eight are
    written out."""
    names = [*dict.fromkeys(key.rpartition(".")[0] or key for key in keys)]
    first_names = ", ".join(ascii(name)[1:-1][:80] for name in names[:8])
    return first_names + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _find_unexplained(candidate: Candidate, unused_tensors: Mapping[str, LazyTensor]) -> list[str]:
    """Return the keys of the unused tensors that may change the answer of the network.

    These are neither state of the training, nor a copy of the network, nor part of another network
    in the file.
    """
    view, naming = candidate.view, candidate.naming
    unused_part = Checkpoint(view.path, view.container, view.files, unused_tensors)
    prefixes = [part.prefix for part in views_of(unused_part)(naming) if part.prefix]
    copies = find_other_copies(view, prefixes)
    remaining = {
        key: tensor
        for key, tensor in exclude_harmless_tensors(unused_tensors).items()
        if not key.startswith(copies) and not _is_independent_of_classifier(candidate, key, tensor)
    }
    if not remaining:
        return []
    remaining_part = Checkpoint(view.path, view.container, view.files, remaining)
    candidates = find_candidates(remaining_part, None)
    used = frozenset[int]().union(
        *(candidate.used_tensor_ids for candidate in candidates if candidate.has_exact_tensors)
    )
    return [key for key, tensor in remaining.items() if id(tensor) not in used]


def _is_independent_of_classifier(candidate: Candidate, key: str, tensor: LazyTensor) -> bool:
    """Return whether the unused tensor `key` takes no part in the computation of the classes.

    This is so for a single number, if the network has no classes or the number is outside the
    module of the classifier. It is so for the pooler of transformers too, unless a custom head may
    take its result.
    """
    view = candidate.view
    if POOLER.search(key):
        return not view.head_is_custom
    module = _module_prefix(view.prefix, view.head, candidate.naming.wrappers)
    return has_one_element(tensor) and not (candidate.config.classes and key.startswith(module))


def _module_prefix(prefix: str, head: str, wrappers: tuple[str, ...]) -> str:
    """Return the prefix of the innermost module that contains both a network and its head.

    **Arguments:**

    - `prefix`: prefix of the network's tensors, such as `model.backbone.`.
    - `head`: path of the head, such as `model.fc`; empty if there is none.
    - `wrappers`: names of modules that a publisher puts around a network. Without a head, such a
      name is dropped from the end of the prefix.
    """
    parts = prefix.split(".")[:-1]
    if head:
        head_parts = head.split(".")[:-1]
        pairs = zip(parts, head_parts, strict=False)
        parts = [part for part, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
    elif parts and parts[-1] in wrappers:
        parts = parts[:-1]
    return "".join(f"{part}." for part in parts)


def report_settings(request: GivenCheckpoint, sentences: Iterable[str]) -> None:
    """Print sentences about settings of a checkpoint that had no effect, or another effect than
    stated."""
    for sentence in sentences:
        _print_once(request.path, sentence)


def report_assumed_preprocessing(request: GivenCheckpoint, family: str) -> None:
    """Print that no file states the preprocessing of pictures, so that the published one of the
    family is assumed."""
    _print_once(
        request.path,
        "nothing beside it says how pictures are preprocessed, so that they are as for the "
        f"published networks of {family}: put a preprocessor_config.json there if yours were not",
    )


def _join_objects(view: Checkpoint) -> str:
    """Return the names and classes of the objects in a file that were not read, separated by
    commas. Only six are written out."""
    first_objects = [f"{name} ({kind})" for name, kind in list(view.objects.items())[:6]]
    remainder = len(view.objects) - len(first_objects)
    return ", ".join(first_objects) + (f" and {remainder} more" if remainder else "")


@cache
def _print_once(path: Path, text: str) -> None:
    """Print a sentence about a file, unless it was printed before: a command may read a checkpoint
    several times."""
    print_note(f"{path}: {text}")
