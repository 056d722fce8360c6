"""Which network a checkpoint is of, where nobody says: one of the registry, or one of its
architectures in other sizes."""

import math
from collections.abc import Sequence
from dataclasses import replace

from weights import Checkpoint
from weights.adapters import MERGED
from weights.containers.safetensors import TENSORS
from weights.errors import MappingError, NotACheckpoint
from weights.load import PERIODS, nearest
from weights.mapping import Naming, leaf_shape
from weights.parameters import parameter
from weights.tensors import FLOATS
from weights.views import Parts, choose_prefix, views_of
from zoo.architectures.config import Config
from zoo.architectures.entry import ModelInfo
from zoo.architectures.kinds import MODEL_TYPES, architecture_of, towers
from zoo.architectures.library_settings import Settings
from zoo.checkpoints.candidates import (
    Candidate,
    candidates,
    prefixes_of,
    without_needless_heads,
)
from zoo.checkpoints.given_checkpoint import open_given
from zoo.checkpoints.load import named
from zoo.checkpoints.own import described, positions_in, unheard
from zoo.checkpoints.own_name import with_own_facts
from zoo.checkpoints.settings.beside import SettingsBeside, read_settings
from zoo.checkpoints.settings.file_names import CONFIG
from zoo.checkpoints.settings.known_settings import refuse_other_architectures
from zoo.checkpoints.use import tell_guess, tell_settings, tell_use
from zoo.checkpoints.weights_argument import Given
from zoo.errors import BadRequest
from zoo.registry.lookup import MODELS


def recognised(choice: Given | Checkpoint) -> tuple[ModelInfo, Checkpoint]:
    """The entry that describes a checkpoint, and the part of it that is its network. Sizes that are
    in no table make an entry that is called by its family. **Raises** a `WeightsError`, or
    `BadRequest` where only somebody who knows the checkpoint can tell."""
    asked = choice if isinstance(choice, Given) else Given(choice.path)
    checkpoint = named(open_given(asked) if isinstance(choice, Given) else choice)
    beside = read_settings(checkpoint)
    settings, how = beside.settings, beside.pictures
    if settings is not None and settings.model_type not in {"", *MODEL_TYPES}:
        raise MappingError(strange(checkpoint, settings))
    refuse_other_architectures(settings)
    ranked = likely(checkpoint, settings, asked)
    if not ranked:
        raise MappingError(strange(checkpoint, settings))
    best = ranked[0]
    # Where only the licences differ, a guess would be a claim about the terms. What a library does
    # otherwise than the authors is no difference between networks that it has trained.
    alike = ranked if best.is_variant else []
    if len({(_described(each, beside).config, each.entry.licence.name) for each in alike}) > 1:
        fitting = " or ".join(dict.fromkeys(each.entry.name for each in ranked))
        raise BadRequest(
            f"{asked.path} may be of {fitting}, which its tensors do not tell: name the model."
        )
    if not best.is_variant:
        check_heads(best, settings)
    entry = _described(best, beside)
    tell_use(best, settings, asked)
    tell_settings(asked, unheard(beside, best.config))
    published = _is_published(best, checkpoint)
    if how is None and not published and "pixel_values" in best.config.takes:
        tell_guess(asked, entry.family)
    if not best.is_variant:
        entry = entry.unlisted
    elif not published:
        # In sizes of a published model, and perhaps somebody's own: nobody said its terms.
        entry = replace(entry, licence=entry.unlisted.licence)
    return with_own_facts(entry, asked), best.view


def _described(candidate: Candidate, beside: SettingsBeside) -> ModelInfo:
    entry, naming, config = candidate.entry, candidate.naming, candidate.config
    own_head = bool(candidate.view.head)
    return described(entry, naming, config, beside.settings, beside.pictures, own_head)


def _is_published(candidate: Candidate, checkpoint: Checkpoint) -> bool:
    """Whether a checkpoint's own name says that it is what somebody published, as it was."""
    if checkpoint.container == MERGED:
        return False
    names = {checkpoint.path.name, *(file.path.name for file in checkpoint.files)}
    repositories = {name.rpartition("/")[2] for name in candidate.entry.names}
    return bool(names & {*candidate.entry.files, *repositories})


def strange(checkpoint: Checkpoint, settings: Settings | None, parts: Parts | None = None) -> str:
    """Describe a checkpoint that is of no network of the zoo, in a sentence."""
    namings = dict.fromkeys(naming for entry in MODELS.values() for naming in entry.readable[:-1])
    try:
        naming, view = nearest(namings, checkpoint, parts)
    except NotACheckpoint as error:
        refused, reason = str(error), ""
    else:
        refused, reason = "", _other_sizes(naming, view)
    if reason:
        return f"{checkpoint.path} holds no network of an architecture of the zoo: {reason}."
    whole = [
        key
        for key, tensor in checkpoint.tensors.items()
        if len(tensor.shape) > 1 and tensor.dtype not in FLOATS
    ]
    if whole:
        return (
            f"{checkpoint.path} holds layers in whole numbers ({_few(whole[:1])} in "
            f"{checkpoint.tensors[whole[0]].dtype}), and nothing of the zoo says what they stand "
            "for: save the network in floats, and make it smaller with "
            f"{parameter('precision')}."
        )
    factors = [key for key in checkpoint.tensors if ".lora_A." in key]
    if factors:
        return (
            f"{checkpoint.path} holds factors of an adapter among its tensors "
            f"({_few(factors[:1])}), and no tensor tells their scale: save what "
            "`merge_and_unload()` gives, or let peft's `save_pretrained` write a folder of the "
            f"adapter, and name that with {parameter('base')}."
        )
    is_read = settings is not None and settings.model_type in MODEL_TYPES
    if settings is not None and not is_read and (name := settings.class_name):
        return (
            f"{checkpoint.path} holds no network of an architecture of the zoo: {CONFIG} beside it "
            f"says that it is a {name}. Name a model with its weights, or give a file of "
            "`zoo list`'s."
        )
    if refused:
        return f"{checkpoint.path} holds no network of an architecture of the zoo: {refused}"
    family = next(each.family for each in MODELS.values() if naming in each.readable)
    others = [key for key in view.tensors if not naming.knows(key)]
    # Where it knows every name, there are too few.
    needed = [key for key in naming.landmarks if key not in view.tensors]
    differing = f"has {_few(others)}" if others else f"lacks {_few(needed)}"
    return (
        f"{checkpoint.path} holds no network of an architecture of the zoo. It is most like "
        f"{family}, in the names of {naming.name}, and {differing}: name a model with its weights, "
        "or give a file of `zoo list`'s."
    )


def _other_sizes(naming: Naming, view: Checkpoint) -> str:
    """What of a network's sizes no network of the zoo has: the channels of pictures, or a grid of
    positions that is no square; empty where it is something else."""
    for part in ("", "vision.", "backbone."):
        for leaf in ("patch_embed.proj.weight", "blocks.0.downsample.conv.weight"):
            kernel = leaf_shape(naming, view.tensors, part + leaf) or ()
            if len(kernel) == 4 and kernel[1] != 3:
                return f"it takes pictures of {kernel[1]} channels, and the zoo's networks take 3"
        table = leaf_shape(naming, view.tensors, part + "global_pos_embed.weight")
        entries = (entry for entry in MODELS.values() if naming in entry.readable)
        places = (positions_in(entry.config_for(naming.name)) for entry in entries)
        patches = {table[0] - where.prefix for where in places if table and where is not None}
        if patches and all(count < 0 or math.isqrt(count) ** 2 != count for count in patches):
            return (
                f"its {min(patches)} positions are of no square grid, and no tensor tells of "
                'which: write {"image_size": [HEIGHT, WIDTH]} of the pictures of training into a '
                f"{CONFIG} beside {TENSORS}, and give their folder"
            )
    return ""


def _few(names: Sequence[str]) -> str:
    """The first five, which come from a file and may be anything."""
    return ", ".join(ascii(name)[1:-1][:60] for name in names[:5]) or "tensors of other shapes"


def likely(
    checkpoint: Checkpoint,
    settings: Settings | None,
    asked: Given | None = None,
    parts: Parts | None = None,
) -> list[Candidate]:
    """Networks of the registry, or else of its architectures; of several those that a file's own
    name tells, or what timm calls the network. **Raises** `MappingError` where a file holds several
    networks, and nothing tells which is meant."""
    asked = asked or Given(checkpoint.path)
    parts = parts or views_of(checkpoint, not asked.without_head)
    fitting = without_needless_heads(candidates(parts, settings))
    prefixes = prefixes_of(fitting, asked.take)
    if not prefixes:
        return []
    prefix = choose_prefix(prefixes, asked.take, checkpoint.path)
    fitting = [each for each in fitting if each.view.prefix == prefix]
    most = max(len(each.used) for each in fitting)
    fitting = [each for each in fitting if len(each.used) == most]
    best = [each for each in fitting if each.is_variant] or fitting
    # What settings tell apart and tensors do not: OpenAI's CLIP has another GELU than LAION's.
    best = [each for each in best if each.config == each.usual] or best
    names = {file.path.name for file in checkpoint.files}
    best = [each for each in best if names & {*each.entry.files}] or best
    if settings is None or not settings.architecture:
        return best
    called = [each for each in best if settings.timm_name in each.entry.aliases]
    called = called or [each for each in best if settings.architecture == each.entry.name]
    # A classifier with weights that the registry does not have began as another classifier.
    trained = [each for each in best if each.config.classes and each.entry.config.classes]
    return called or trained or best


def check_heads(candidate: Candidate, settings: Settings | None) -> None:
    """**Raises** `BadRequest` where nothing tells how many heads a network in sizes of no table
    has, or where they cannot be as many."""
    for path, tower in towers(candidate.config):
        kind = architecture_of(tower)
        if untold := kind.untold(tower, settings):
            raise BadRequest(
                f"{candidate.entry.family} of {tower.dim} channels: no tensor tells {untold} into "
                f"a {CONFIG} beside {TENSORS}, and give their folder."
            )
        if kind.heads is not None:
            stated = settings and kind.told(settings).heads
            periods = leaf_shape(candidate.naming, candidate.view.tensors, f"{path}{PERIODS}")
            is_known = bool(stated) or periods is not None
            _check_heads(tower, kind.heads(tower), candidate.entry.family, is_known)


def _check_heads(tower: Config, heads: int, family: str, is_told: bool) -> None:
    if not is_told:
        raise BadRequest(
            f"{family} of {tower.dim} channels: no tensor tells how many heads share "
            f'them. Write {{"num_attention_heads": NUMBER}} into a {CONFIG} beside {TENSORS}, and '
            "give their folder."
        )
    if not tower.is_sound:
        raise BadRequest(
            f"{heads} heads cannot share {tower.dim} channels: mend the "
            f"num_attention_heads of {CONFIG} beside the checkpoint."
        )
