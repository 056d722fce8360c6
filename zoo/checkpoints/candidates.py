"""Networks of the registry that a checkpoint, or a part of it, may be of."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

from weights import Checkpoint
from weights.leftover import is_trained
from weights.load import matches_exactly
from weights.mapping import Naming, leaf_shape
from weights.views import views_of
from zoo.architectures.architecture import CheckpointFacts, Config
from zoo.architectures.config_fields import have_same_architecture, have_same_sizes
from zoo.architectures.entry import ModelInfo, Published
from zoo.architectures.kinds import (
    absent_leaves,
    complete_config,
    has_sizes,
    read_sizes,
    with_one_head,
    with_options,
)
from zoo.architectures.library_settings import Settings
from zoo.registry.lookup import MODELS


@dataclass(frozen=True)
class Candidate:
    """An entry whose architecture a part of a checkpoint has, in whose names, in which sizes."""

    entry: ModelInfo
    published: Published
    config: Config
    view: Checkpoint

    @property
    def naming(self) -> Naming:
        """The names of the part's tensors."""
        return self.published.naming

    @property
    def is_variant(self) -> bool:
        """Whether the sizes are the entry's too."""
        return have_same_sizes(self.config, self.usual)

    @property
    def usual(self) -> Config:
        """The network of the entry."""
        return self.published.config

    @cached_property
    def used(self) -> frozenset[int]:
        """The tensors that the network uses if it `fits`, by their identity: those whose names
        stand for leaves that the network has."""
        leaves, tensors = self.view.leaves, self.view.tensors
        absent = absent_leaves(self.config)
        return frozenset(
            id(tensors[key])
            for key, leaf in leaves.items()
            if is_trained(tensors[key]) and leaf not in absent
        )

    @cached_property
    def fits(self) -> bool:
        """Whether the part has just the tensors of the network, however many heads that has. This
        builds the network, and is asked of the likely ones alone."""
        from zoo.checkpoints.load import model_shapes

        config = self.config if self.config.is_sound else with_one_head(self.config)
        return config.is_sound and matches_exactly(
            self.naming, self.view.tensors, model_shapes(config)
        )

    def is_custom_head(self, settings: Settings | None) -> bool:
        """Whether somebody has put a head on the network that its library has not."""
        return _is_custom(self.view, self.naming, settings)

    @property
    def called(self) -> str:
        """The model, or the family of a network in sizes of no table."""
        return self.entry.name if self.is_variant else self.entry.family


def candidates(
    checkpoint: Checkpoint, settings: Settings | None, with_head: bool = True
) -> Iterator[Candidate]:
    """Yield the networks whose sizes parts of a checkpoint have. Which of them a part `fits` is
    still to be asked."""
    for entry in MODELS.values():
        for candidate in readings(entry, checkpoint, settings, with_head):
            shapes = _shapes(candidate.naming, candidate.view)
            if _is_alike(candidate) and has_sizes(candidate.config, shapes):
                yield candidate


def _is_alike(candidate: Candidate) -> bool:
    """Whether a network is of the entry's architecture, with the options of its library."""
    naming, view = candidate.naming, candidate.view
    if candidate.is_variant:
        return True
    usual = with_options(candidate.usual, candidate.published.options, _shapes(naming, view))
    return have_same_architecture(candidate.config, usual)


def readings(
    entry: ModelInfo, checkpoint: Checkpoint, settings: Settings | None, with_head: bool = True
) -> Iterator[Candidate]:
    """Yield the sizes of a checkpoint's parts in each naming of an entry in which they can be
    read."""
    parts = views_of(checkpoint, with_head)
    for published in entry.readable:
        naming = published.naming
        for view in parts(naming):
            usual = with_options(published.config, published.options, _shapes(naming, view))
            if sized := read_sizes(usual, _shapes(naming, view)):
                beside = CheckpointFacts(naming.name, settings, _is_custom(view, naming, settings))
                yield Candidate(entry, published, complete_config(sized, beside), view)


def _is_custom(view: Checkpoint, naming: Naming, settings: Settings | None) -> bool:
    """Whether the head of a part is somebody's own; a class of transformers has no other than its
    own, whatever module somebody has put the network in."""
    is_named = view.head.rpartition(".")[2] == naming.head
    is_of_class = settings is not None and settings.is_classifier and naming.name == "huggingface"
    return view.head_is_custom and not (is_named and is_of_class)


def _shapes(naming: Naming, view: Checkpoint) -> partial[tuple[int, ...] | None]:
    return partial(leaf_shape, naming, view.tensors)


def without_needless_heads(alike: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates without those whose custom head is a layer of another candidate's
    network, as the projection of CLIP."""
    alike = [*alike]
    usual = [each for each in alike if not each.view.head_is_custom]
    return [
        each
        for each in alike
        if not each.view.head_is_custom
        or not any(_without_bias(each) <= other.used and other.fits for other in usual)
    ]


class Rank(NamedTuple):
    """How likely a candidate is, the largest first: tensors that it uses; whether it has the sizes
    of its entry; whether it is the entry's network in what settings tell and tensors do not, as
    OpenAI's CLIP has another GELU than LAION's; whether a file has the entry's name; whether timm
    calls the network so, by an alias (2) or a name (1); and whether both are classifiers: one with
    weights that the registry does not have began as another classifier."""

    used: int
    is_variant: bool
    is_usual: bool
    is_named: bool
    called: int
    is_trained_alike: bool

    @classmethod
    def of(cls, each: Candidate, names: Collection[str], settings: Settings | None) -> Rank:
        """Rank of a candidate in files of these names."""
        is_named = not {*each.entry.files}.isdisjoint(names)
        called, is_trained_alike = 0, False
        if settings is not None and settings.architecture:
            called = 2 * (settings.timm_name in each.entry.aliases)
            called = called or int(settings.architecture == each.entry.name)
            classifiers = each.config.classes and each.entry.config.classes
            is_trained_alike = called > 0 or bool(classifiers)
        is_usual = each.config == each.usual
        is_variant = each.is_variant
        return cls(len(each.used), is_variant, is_usual, is_named, called, is_trained_alike)


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
