"""Find the published networks that a checkpoint, or a part of it, may contain.

A part is the tensors of one network in a checkpoint, in the names of a naming. It is a view of the
checkpoint (`weights.views`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

from weights import Checkpoint
from weights.load import matches_model
from weights.mapping import Naming, leaf_shape
from weights.training_tensors import may_be_trained
from weights.views import views_of
from zoo.architectures.architecture import CheckpointFacts, Config
from zoo.architectures.config_fields import have_same_architecture, have_same_sizes
from zoo.architectures.entry import ModelInfo, PublishedNaming
from zoo.architectures.kinds import (
    absent_leaves,
    complete_config,
    has_sizes,
    read_sizes,
    with_neutral_values,
    with_options,
)
from zoo.architectures.library_settings import Settings
from zoo.registry.lookup import MODELS


@dataclass(frozen=True)
class Candidate:
    """One reading of a checkpoint: a part of it, understood as the architecture of a published
    model.

    Arguments:
        entry: registry entry of the published model.
        published: the naming in which the tensor names were read, with the published network.
        config: configuration of that architecture with the sizes of the checkpoint.
        view: the part of the checkpoint that holds the network, with the tensor names of that
            naming.
    """

    entry: ModelInfo
    published: PublishedNaming
    config: Config
    view: Checkpoint

    @property
    def naming(self) -> Naming:
        """Naming in which the tensor names were read."""
        return self.published.naming

    @property
    def has_entry_sizes(self) -> bool:
        """Whether the checkpoint has the sizes of the published model, as far as tensors determine
        them."""
        return have_same_sizes(self.config, self.published_config)

    @property
    def published_config(self) -> Config:
        """Configuration of the published model."""
        return self.published.config

    @cached_property
    def used_tensor_ids(self) -> frozenset[int]:
        """Python's `id` of each tensor that the network would use.

        These are the trained tensors whose names stand for leaves of the network.
        """
        leaves, tensors = self.view.leaves, self.view.tensors
        absent = absent_leaves(self.config)
        return frozenset(
            id(tensors[key])
            for key, leaf in leaves.items()
            if may_be_trained(tensors[key]) and leaf not in absent
        )

    @cached_property
    def has_exact_tensors(self) -> bool:
        """Whether the part has exactly the tensors of the network, by name and shape.

        A number of attention heads that does not divide the width is ignored, because no tensor
        determines the number. The network is built for the comparison, which takes time: ask only
        the most likely candidates.
        """
        from zoo.checkpoints.load import model_shapes

        config = self.config if self.config.is_sound else with_neutral_values(self.config)
        return config.is_sound and matches_model(
            self.naming, self.view.tensors, model_shapes(config)
        )

    def has_custom_head(self, settings: Settings | None) -> bool:
        """Return whether the network has a head that its source library does not define, such as a
        user's linear layer.

        `settings` are the contents of `config.json`, or None without one.
        """
        return _has_custom_head(self.view, self.naming, settings)

    @property
    def display_name(self) -> str:
        """Name of the published model, or of its family if the checkpoint has other sizes."""
        return self.entry.name if self.has_entry_sizes else self.entry.family


def find_candidates(
    checkpoint: Checkpoint, settings: Settings | None, with_head: bool = True
) -> Iterator[Candidate]:
    """Yield each part of a checkpoint that may be a network of a published model's architecture.

    The sizes may be others than the model's. Candidates are yielded in the order of the models in
    the registry. Only sizes and options are compared here. `Candidate.has_exact_tensors` compares
    the tensors.

    `settings` are the contents of `config.json`, or None without one. `with_head` is whether a
    linear layer on top of a network counts as its head.
    """
    for entry in MODELS.values():
        for candidate in read_candidates(entry, checkpoint, settings, with_head):
            shapes = _leaf_shape_reader(candidate.naming, candidate.view)
            if _has_entry_architecture(candidate) and has_sizes(candidate.config, shapes):
                yield candidate


def _has_entry_architecture(candidate: Candidate) -> bool:
    """Return whether a candidate's configuration has the architecture of the published model.

    The result is True if the candidate has all sizes of the published model. Otherwise the two
    configurations are compared by `have_same_architecture`, which lets sizes, settings and details
    differ. Options of the source library may differ too, such as a norm before the head: the
    published configuration first gets the options that the checkpoint's tensors show.
    """
    naming, view = candidate.naming, candidate.view
    if candidate.has_entry_sizes:
        return True
    expected = with_options(
        candidate.published_config, candidate.published.options, _leaf_shape_reader(naming, view)
    )
    return have_same_architecture(candidate.config, expected)


def read_candidates(
    entry: ModelInfo, checkpoint: Checkpoint, settings: Settings | None, with_head: bool = True
) -> Iterator[Candidate]:
    """Yield the candidates of one model: for each of its namings, each part of the checkpoint from
    which the sizes of the network can be read.

    `settings` are the contents of `config.json`, or None without one. `with_head` is whether a
    linear layer on top of a network counts as its head.
    """
    parts = views_of(checkpoint, with_head)
    for published in entry.readable_namings:
        naming = published.naming
        for view in parts(naming):
            config = with_options(
                published.config, published.options, _leaf_shape_reader(naming, view)
            )
            if sized_config := read_sizes(config, _leaf_shape_reader(naming, view)):
                facts = CheckpointFacts(
                    naming.name, settings, _has_custom_head(view, naming, settings)
                )
                yield Candidate(entry, published, complete_config(sized_config, facts), view)


def _has_custom_head(view: Checkpoint, naming: Naming, settings: Settings | None) -> bool:
    """Return whether the head of a part is not the one that its source library defines.

    Transformers' own name of the head, in a checkpoint whose settings name one of its classifier
    classes, is never a custom head. The module that contains the network does not matter then.
    """
    is_named = view.head.rpartition(".")[2] == naming.head
    is_of_class = settings is not None and settings.is_classifier and naming.name == "huggingface"
    return view.head_is_custom and not (is_named and is_of_class)


def _leaf_shape_reader(naming: Naming, view: Checkpoint) -> partial[tuple[int, ...] | None]:
    """Return a function from the path of a leaf to its shape in a part of a checkpoint. It returns
    None for a leaf that the part lacks."""
    return partial(leaf_shape, naming, view.tensors)


def drop_redundant_heads(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates without those that mistake a layer of a larger network for a custom
    head.

    The projection of CLIP, for example, is a layer of CLIP, and not a head that a user put on its
    vision tower. A candidate with a custom head is left out if a larger candidate explains its
    tensors: one without a custom head that has exactly its network's tensors, and that uses all
    tensors of the candidate except the bias of the head. The order is kept.
    """
    candidates = [*candidates]
    with_own_head = [candidate for candidate in candidates if not candidate.view.head_is_custom]
    return [
        candidate
        for candidate in candidates
        if not candidate.view.head_is_custom
        or not any(
            _without_bias(candidate) <= other.used_tensor_ids and other.has_exact_tensors
            for other in with_own_head
        )
    ]


class Rank(NamedTuple):
    """Likelihood that a candidate is the network of a checkpoint. Ranks are compared field by
    field, and the largest is the most likely.

    Arguments:
        used_tensors: number of tensors that the network uses.
        has_entry_sizes: whether the sizes are those of the published model.
        equals_published: whether the configuration is that of the published model, including the
            settings that tensors do not determine. OpenAI's CLIP and LAION's differ in their GELU
            only.
        has_entry_file_name: whether a file of the checkpoint has the name of a published file of
            the model.
        timm_match: 2 if timm's name of the network, with its tag, is an alias of the model; 1 if
            timm's architecture is the name of the model; otherwise 0, also without timm's settings.
        are_both_classifiers: whether the candidate and the published model are classifiers, or
            `timm_match` is not 0. False without timm's settings. A classifier whose weights are not
            in the registry was trained from another classifier.
    """

    used_tensors: int
    has_entry_sizes: bool
    equals_published: bool
    has_entry_file_name: bool
    timm_match: int
    are_both_classifiers: bool

    @classmethod
    def of(cls, candidate: Candidate, names: Collection[str], settings: Settings | None) -> Rank:
        """Return the rank of a candidate for a checkpoint.

        `names` are the names of the checkpoint's files. `settings` are the contents of its
        `config.json`, or None without one.
        """
        has_entry_file_name = not {*candidate.entry.recognised_files}.isdisjoint(names)
        timm_match, are_both_classifiers = 0, False
        if settings is not None and settings.architecture:
            timm_match = 2 * (settings.timm_name in candidate.entry.aliases)
            timm_match = timm_match or int(settings.architecture == candidate.entry.name)
            classifiers = candidate.config.classes and candidate.entry.config.classes
            are_both_classifiers = timm_match > 0 or bool(classifiers)
        equals_published = candidate.config == candidate.published_config
        has_entry_sizes = candidate.has_entry_sizes
        return cls(
            len(candidate.used_tensor_ids),
            has_entry_sizes,
            equals_published,
            has_entry_file_name,
            timm_match,
            are_both_classifiers,
        )


def _without_bias(candidate: Candidate) -> frozenset[int]:
    """Return the ids of the tensors that a candidate uses, without the bias of its head.

    If the file has no bias for a head, the bias is zeros that are in no file, so that it must not
    be compared.
    """
    bias = candidate.view.tensors.get(f"{candidate.naming.head}.bias")
    return candidate.used_tensor_ids - {id(bias)}


def select_prefixes(candidates: Iterable[Candidate], take: str) -> list[str]:
    """Return the prefixes of the networks that a checkpoint holds, out of the prefixes of the
    candidates.

    A network that is part of another one is left out: one tower of two is a network too, of a size
    that may be published, but both towers together use all tensors. Of two prefixes with the same
    tensors the shorter one is kept. The prefixes are in the order of the candidates, each once.

    If the user names a network (`take` is not empty), all prefixes of the candidates are returned.
    """
    candidates = [*candidates]
    prefixes = [*dict.fromkeys(candidate.view.prefix for candidate in candidates)]
    if take or len(prefixes) == 1:
        return prefixes
    used: dict[str, frozenset[int]] = {}
    for candidate in candidates:
        used[candidate.view.prefix] = max(
            used.get(candidate.view.prefix, frozenset()), candidate.used_tensor_ids, key=len
        )
    # If two prefixes lead to the same tensors, the shorter one is kept.
    shortest = {used[prefix]: prefix for prefix in sorted(used, key=len, reverse=True)}
    largest = [
        tensor_ids for tensor_ids in shortest if not any(tensor_ids < other for other in shortest)
    ]
    return [prefix for prefix in used if prefix in {shortest[tensor_ids] for tensor_ids in largest}]
