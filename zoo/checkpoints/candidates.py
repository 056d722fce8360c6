"""Networks of the registry that a checkpoint, or a part of it, may be of."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

from weights import Checkpoint
from weights.load import fits
from weights.mapping import Naming, leaf_shape, plan, source_shapes
from weights.views import Parts
from zoo.architectures.architecture import CheckpointFacts, Config
from zoo.architectures.config_fields import have_same_architecture, have_same_sizes
from zoo.architectures.entry import ModelInfo
from zoo.architectures.kinds import (
    complete_config,
    read_sizes,
    with_one_head,
    with_options,
)
from zoo.architectures.library_settings import Settings
from zoo.registry.lookup import MODELS


@dataclass(frozen=True)
class Candidate:
    """An entry whose architecture a part of a checkpoint has, in whose naming, in which sizes."""

    entry: ModelInfo
    naming: Naming
    config: Config
    view: Checkpoint

    @property
    def is_variant(self) -> bool:
        """Whether the sizes are the entry's too."""
        return have_same_sizes(self.config, self.usual)

    @property
    def usual(self) -> Config:
        """The network of the entry."""
        return self.entry.config_for(self.naming.name)

    @cached_property
    def used(self) -> frozenset[int]:
        """The tensors that the network has a use for, by their identity."""
        # JAX is imported only where there is a model to build.
        from zoo.checkpoints.load import model_shapes

        config = self.config if self.config.is_sound else with_one_head(self.config)
        plans = plan(self.naming.rules, model_shapes(config))
        keys = source_shapes(plans).keys() & self.view.tensors.keys()
        return frozenset(id(self.view.tensors[key]) for key in keys)

    @cached_property
    def fits(self) -> bool:
        """Whether the part has just the tensors of the network, however many heads that has."""
        from zoo.checkpoints.load import model_shapes

        config = self.config if self.config.is_sound else with_one_head(self.config)
        return config.is_sound and fits(self.naming, self.view.tensors, model_shapes(config))

    def is_custom_head(self, settings: Settings | None) -> bool:
        """Whether somebody has put a head on the network that its library has not."""
        return _is_custom(self.view, self.naming, settings)

    @property
    def called(self) -> str:
        """The model, or the family of a network in sizes of no table."""
        return self.entry.name if self.is_variant else self.entry.family


def candidates(parts: Parts, settings: Settings | None) -> Iterator[Candidate]:
    """Yield all networks that parts of a checkpoint have just the tensors for."""
    for entry in MODELS.values():
        for candidate in readings(entry, parts, settings):
            if _is_alike(candidate) and candidate.fits:
                yield candidate


def _is_alike(candidate: Candidate) -> bool:
    """Whether a network is of the entry's architecture, with the options of its library."""
    entry, naming, view = candidate.entry, candidate.naming, candidate.view
    if candidate.is_variant:
        return True
    usual = with_options(candidate.usual, entry.options_of(naming.name), _shapes(naming, view))
    return have_same_architecture(candidate.config, usual)


def readings(entry: ModelInfo, parts: Parts, settings: Settings | None) -> Iterator[Candidate]:
    """Yield the sizes of a checkpoint's parts in each naming of an entry in which they can be
    read."""
    for naming in entry.readable:
        options = entry.options_of(naming.name)
        for view in parts(naming):
            usual = with_options(entry.config_for(naming.name), options, _shapes(naming, view))
            if sized := read_sizes(usual, _shapes(naming, view)):
                beside = CheckpointFacts(naming.name, settings, _is_custom(view, naming, settings))
                yield Candidate(entry, naming, complete_config(sized, beside), view)


def _is_custom(view: Checkpoint, naming: Naming, settings: Settings | None) -> bool:
    """Whether the head of a part is somebody's own; a class of transformers has no other than its
    own, whatever module somebody has put the network in."""
    is_named = view.head.rpartition(".")[2] == naming.head
    is_of_class = settings is not None and settings.is_classifier and naming.name == "huggingface"
    return view.head_is_custom and not (is_named and is_of_class)


def _shapes(naming: Naming, view: Checkpoint) -> partial[tuple[int, ...] | None]:
    return partial(leaf_shape, naming, view.tensors)


def without_needless_heads(fitting: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates without those whose custom head is a layer of another candidate's
    network, as the projection of CLIP."""
    fitting = [*fitting]
    usual = [each for each in fitting if not each.view.head_is_custom]
    return [
        each
        for each in fitting
        if not each.view.head_is_custom
        or not any(_without_bias(each) <= other.used for other in usual)
    ]


def _without_bias(candidate: Candidate) -> frozenset[int]:
    """Return the tensors that a network uses but the bias of its head: a layer that has none in
    the file has zeros."""
    bias = candidate.view.tensors.get(f"{candidate.naming.head}.bias")
    return candidate.used - {id(bias)}


def prefixes_of(fitting: Iterable[Candidate], take: str) -> list[str]:
    """Return the prefixes of networks, without those that are parts of another one unless one is
    to be taken by its name: a tower beside another is a network too, of a size that may be known,
    and both together leave nothing out."""
    fitting = [*fitting]
    prefixes = [*dict.fromkeys(each.view.prefix for each in fitting)]
    if take or len(prefixes) == 1:
        return prefixes
    used: dict[str, frozenset[int]] = {}
    for each in fitting:
        used[each.view.prefix] = max(used.get(each.view.prefix, frozenset()), each.used, key=len)
    # Of two prefixes of the same tensors, the shorter stands for both.
    shortest = {used[prefix]: prefix for prefix in sorted(used, key=len, reverse=True)}
    largest = [own for own in shortest if not any(own < other for other in shortest)]
    return [prefix for prefix in used if prefix in {shortest[own] for own in largest}]
