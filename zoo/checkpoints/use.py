"""Report which tensors of a checkpoint a network uses, and refuse to drop trained tensors."""

from collections.abc import Iterable, Mapping
from functools import cache
from itertools import takewhile
from pathlib import Path

from weights import Checkpoint
from weights.errors import MappingError
from weights.leftover import POOLER, is_number, may_change_answer
from weights.mapping import find_unrelated_keys, plan
from weights.parameters import parameter
from weights.progress import print_note
from weights.tensors import LazyTensor
from weights.views import find_other_copies, summarize_names, views_of
from zoo.architectures.kinds import architecture_of
from zoo.architectures.library_settings import Settings
from zoo.checkpoints.candidates import Candidate, candidates
from zoo.checkpoints.settings.settings_files import CONFIG
from zoo.checkpoints.source import GivenCheckpoint
from zoo.common.errors import BadRequest


def check_head_input(candidate: Candidate, settings: Settings | None) -> None:
    """**Raises** `BadRequest` where a custom head may take one of several vectors of the same
    width, and no setting says which, and `MappingError` where none is known that is as wide."""
    view, config = candidate.view, candidate.config
    if not candidate.is_custom_head(settings):
        return
    choices = architecture_of(config).head_inputs(config)
    if choices is None:
        raise MappingError(
            f"{view.path} has a linear layer `{view.head}` on the network, as wide as several of "
            "its vectors, and no library says which they are: leave it out with "
            f"{parameter('without_head')}, or export the whole of your network with "
            "`converter.to_onnx`."
        )
    if not choices and view.head_is_convolution:
        choices = {"avg": architecture_of(config).head_takes(config)}
    if not choices or (settings is not None and settings.pool in choices):
        return
    listed = " or ".join(
        f'{{"global_pool": "{pool}"}} ({takes})' for pool, takes in choices.items()
    )
    raise BadRequest(
        f"{view.path} has a linear layer `{view.head}` on the network, and no tensor tells which "
        f"vector it takes: write {listed} into a {CONFIG} beside it, or leave it out with "
        f"{parameter('without_head')}."
    )


def tell_use(candidate: Candidate, settings: Settings | None, asked: GivenCheckpoint) -> None:
    """Say from where in a file a network was taken, and what was left out. **Raises**
    `MappingError` where that was trained and may change the answer, unless the head is not wanted,
    and `BadRequest` where nothing says what a head takes."""
    # JAX is imported only where there is a model to build.
    from zoo.checkpoints.load import model_shapes

    view, config = candidate.view, candidate.config
    needed = plan(candidate.naming.rules, model_shapes(config))
    left = find_unrelated_keys(candidate.naming, needed, view.tensors)
    others = {**{view.prefix + key: view.tensors[key] for key in left}, **view.other_tensors}
    if not asked.without_head:
        _check_use(candidate, others, asked.path)
        check_head_input(candidate, settings)
    kind = architecture_of(config)
    has_head = config.classes and kind.gives_features and config != candidate.usual
    if not (view.prefix or others or has_head or view.objects or view.unread):
        return
    prefix = f" from `{view.prefix}`" if view.prefix else ""
    said = [f"read as {candidate.called}{prefix}"]
    if has_head or (config.classes and view.head):
        called = f"head `{view.head}`" if view.head else "classifier"
        said.append(f"its {called} gives logits from {kind.head_takes(config)}")
    if others:
        count = len(view.tensors) + len(view.other_tensors)
        said.append(f"{len(others)} of {count} tensors were not used: {summarize_names(others)}")
    if view.objects:
        said.append(f"objects that were passed over: {_objects(view)}")
    if view.unread:
        said.append(f"files beside it that were not read: {', '.join(view.unread[:6])}")
    _say_once(asked.path, "; ".join(said))


def _check_use(candidate: Candidate, others: Mapping[str, LazyTensor], path: Path) -> None:
    """**Raises** `MappingError` for tensors that may change the answer and are not used."""
    if strange := _unexplained(candidate, others):
        raise MappingError(
            f"{path} has trained tensors that the network of the zoo has no place for "
            f"({_modules(strange)}). A head is read if it is one linear layer on what the network "
            f"pools and nothing else. Leave out what is on the network with "
            f"{parameter('without_head')}, or export the whole of your network with "
            "`converter.to_onnx`."
        )


def _modules(keys: Iterable[str]) -> str:
    """Return the names of the modules of tensors, the first eight."""
    names = [*dict.fromkeys(key.rpartition(".")[0] or key for key in keys)]
    shown = ", ".join(ascii(name)[1:-1][:80] for name in names[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _unexplained(candidate: Candidate, others: Mapping[str, LazyTensor]) -> list[str]:
    """Return the keys of tensors that no rule explains: neither of training, nor of another network
    in the file."""
    view, naming = candidate.view, candidate.naming
    beside = Checkpoint(view.path, view.container, view.files, others)
    prefixes = [each.prefix for each in views_of(beside)(naming) if each.prefix]
    copies = find_other_copies(view, prefixes)
    left = {
        key: tensor
        for key, tensor in may_change_answer(others).items()
        if not key.startswith(copies) and not _is_beside_head(candidate, key, tensor)
    }
    if not left:
        return []
    elsewhere = Checkpoint(view.path, view.container, view.files, left)
    networks = candidates(elsewhere, None)
    used = frozenset[int]().union(*(each.used for each in networks if each.fits))
    return [key for key, tensor in left.items() if id(tensor) not in used]


def _is_beside_head(candidate: Candidate, key: str, tensor: LazyTensor) -> bool:
    """Whether a tensor has no part in what a classifier computes: a number of another module than
    that, or the pooler of transformers."""
    view = candidate.view
    if POOLER.search(key):
        return not view.head_is_custom
    inside = _scope(view.prefix, view.head, candidate.naming.wrappers)
    return is_number(tensor) and not (candidate.config.classes and key.startswith(inside))


def _scope(prefix: str, head: str, wrappers: tuple[str, ...]) -> str:
    """Return the prefix of the module that holds a network and its head."""
    parts = prefix.split(".")[:-1]
    if head:
        around = head.split(".")[:-1]
        pairs = zip(parts, around, strict=False)
        parts = [part for part, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
    elif parts and parts[-1] in wrappers:
        parts = parts[:-1]
    return "".join(f"{part}." for part in parts)


def tell_settings(asked: GivenCheckpoint, sentences: Iterable[str]) -> None:
    """Say which settings had no effect, or another one."""
    for sentence in sentences:
        _say_once(asked.path, sentence)


def tell_guess(asked: GivenCheckpoint, family: str) -> None:
    """Say that nobody said how a checkpoint's pictures are preprocessed."""
    _say_once(
        asked.path,
        "nothing beside it says how pictures are preprocessed, so that they are as for the "
        f"published networks of {family}: put a preprocessor_config.json there if yours were not",
    )


def _objects(view: Checkpoint) -> str:
    listed = [f"{name} ({kind})" for name, kind in list(view.objects.items())[:6]]
    more = len(view.objects) - len(listed)
    return ", ".join(listed) + (f" and {more} more" if more else "")


@cache
def _say_once(path: Path, text: str) -> None:
    """A command may look at a checkpoint several times."""
    print_note(f"{path}: {text}")
