"""What of a checkpoint is used and what is not, in a sentence: no head is left out in silence."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from weights import Checkpoint, leaf_shapes
from weights.errors import MappingError
from weights.mapping import Naming, plan, unused
from weights.parameters import parameter
from weights.progress import say_aside
from weights.views import grouped, heads_left, views
from zoo.architectures.config import Config
from zoo.architectures.kinds import architecture_of
from zoo.checkpoints.weights_argument import Given


def tell_use(view: Checkpoint, naming: Naming, config: Config, called: str, asked: Given) -> None:
    """Say from where in a file a network was taken, and what was left out. **Raises**
    `MappingError` where that would be a head that nobody gave up."""
    # JAX is imported only where there is a model to build.
    from zoo.architectures.builder import abstract

    needed = plan(naming.rules, leaf_shapes(abstract(config)))
    left = unused(naming, needed, view.tensors)
    others = [*(view.prefix + key for key in left), *view.others]
    beside = Checkpoint(view.path, view.container, view.files, view.others)
    prefixes = [each.prefix for each in views(beside, naming) if each.prefix]
    heads = heads_left(view, naming, prefixes, left)
    if heads and not asked.without_head:
        raise MappingError(
            f"{asked.path} has a head on this network that is no single linear layer "
            f"({grouped(heads)}), and no file can be made with it: leave it out with "
            f"{parameter('without_head')}, or export the whole of your network with "
            "`converter.to_onnx`."
        )
    if not (view.prefix or others or view.head or view.objects or view.unread):
        return
    said = [f"read as {called}" + (f" from `{view.prefix}`" if view.prefix else "")]
    if view.head:
        said.append(
            f"its head `{view.head}` gives logits from {architecture_of(config).head_takes(config)}"
        )
    if others:
        count = len(view.tensors) + len(view.others)
        said.append(f"{len(others)} of {count} tensors were not used: {grouped(others)}")
    if view.objects:
        said.append(f"objects that were passed over: {_objects(view)}")
    if view.unread:
        said.append(f"files beside it that were not read: {', '.join(view.unread[:6])}")
    _say_once(asked.path, "; ".join(said))


def tell_settings(asked: Given, sentences: Iterable[str]) -> None:
    """Say which settings had no effect, or another one."""
    for sentence in sentences:
        _say_once(asked.path, sentence)


def tell_guess(asked: Given, family: str) -> None:
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
    say_aside(f"{path}: {text}")
