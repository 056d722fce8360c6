"""Build one folder, file by file. Files that an earlier build verified are kept."""

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from weights import LazyArrays, Weights
from weights.parameters import parameter
from weights.progress import Progress
from zoo.architectures.builder import abstract
from zoo.architectures.entry import ModelInfo
from zoo.architectures.kinds import architecture_of, parts_of_network
from zoo.artifacts.choices import Scales
from zoo.artifacts.measured import Speeds, StatedSimilarity
from zoo.artifacts.schema import MANIFEST, Variant
from zoo.checkpoints.checkpoint_tokenizer import Words, find_words
from zoo.checkpoints.convert import write_json
from zoo.checkpoints.load import LoadedWeights, read_for_model
from zoo.checkpoints.pretrained import find_entry
from zoo.checkpoints.source import opened
from zoo.common import runtime
from zoo.common.errors import BadOutput
from zoo.common.prefetch import prefetching
from zoo.common.runtime import Session
from zoo.common.staging import (
    locked_output,
    refuse_links,
    sidecar_path,
    staged,
    write_text,
    writing,
)
from zoo.export.assemble.extras import EXTRAS, card, golden_sample, write_extras
from zoo.export.assemble.ledger import Ledger
from zoo.export.assemble.plan import PLANNED_FILES, TOWER_FILES, VARIANTS, FolderPlan
from zoo.export.bulk import Outcome
from zoo.export.describe import describe_shared, describe_variant
from zoo.export.make import ExportedFile, Maker, making_files
from zoo.export.network_inputs import Inputs
from zoo.export.request import FileSpec, Signature
from zoo.export.timing.rounds import (
    affordable,
    interleave,
    machine,
    run_once,
    speeds_beside,
    watch_others,
)
from zoo.export.verify import runs
from zoo.texts.tokenizer import SETTINGS, WORDS, read_tokenizer_settings, read_words


def similarity(loaded: LoadedWeights) -> StatedSimilarity | None:
    """Similarity of a network with two towers; None for others."""
    how = architecture_of(loaded.config).similarity
    if how is None:
        return None
    scale, bias = how(loaded.config, loaded.weights.arrays)
    alone = loaded.config.scores == "sigmoid"
    return StatedSimilarity(scale=scale, bias=bias, probabilities="sigmoid" if alone else "softmax")


def write_words(stage: Path, words: Words) -> tuple[str, ...]:
    """The tokenizer's files in `stage`, and their names. Its settings say how long texts are, for
    clients that ask nothing else."""
    write_text(stage / WORDS, read_words(words.folder))
    _, settings = read_tokenizer_settings(words.folder)
    usual = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>"}
    write_json(stage / SETTINGS, usual | settings | {"model_max_length": words.tokens})
    return WORDS, SETTINGS


@dataclass(frozen=True)
class Part:
    """A network, its weights, and the variants that are of it."""

    entry: ModelInfo
    loaded: LoadedWeights
    files: dict[str, FileSpec]


def parts_of(entry: ModelInfo, loaded: LoadedWeights) -> Iterator[Part]:
    """The towers, if there are any, and then the whole."""
    parts = parts_of_network(loaded.config)
    for tower, field in architecture_of(loaded.config).towers.items():
        files = {name: spec for name, spec in TOWER_FILES.items() if name.startswith(tower)}
        part = LoadedWeights(parts[field], inner(loaded.weights, f"{field}."))
        yield Part(replace(entry, config=parts[field]), part, files)
    yield Part(entry, loaded, VARIANTS)


def inner(weights: Weights, path: str) -> Weights:
    """The weights of a part of a network, which lies under `path`."""
    tensors = weights.arrays.tensors.items()
    inside = {name.removeprefix(path): each for name, each in tensors if name.startswith(path)}
    return replace(weights, arrays=LazyArrays(inside))


def speeds(
    files: Mapping[str, Path],
    fed: Inputs,
    sessions: Mapping[str, runtime.Session],
) -> Speeds:
    """p50 of a run on one sample, and how many times faster than `fp32` that is.

    Rounds are interleaved, so that a change of the machine's speed meets all alike. Variants
    without kernels on a CPU are left out. `sessions` are those that there are already.
    """
    tasks = {}
    for name, path in files.items():
        if VARIANTS[name].precision != "bf16":
            live = sessions.get(name) or runtime.session(path)
            tasks[name] = run_once(live, fed)
    rounds = affordable(tasks.values())
    others = watch_others()
    times = interleave(tasks, rounds)
    taken = others()
    return Speeds(
        runtime=f"{runtime.VERSION}, CPU, all cores",
        machine=machine(),
        others=None if taken is None else round(taken, 2),
        input=next(iter(fed.values())).shape,
        rounds=rounds,
        variants=speeds_beside(times, "fp32"),
    )


CARD = "README.md"


def build_folder(plan: FolderPlan, progress: Progress) -> Outcome:
    """Build a folder, or what is missing of it.

    **Raises** a `ZooError` or a `WeightsError`; what is finished by then stays.
    """
    with locked_output(plan.folder, progress):
        refuse_links(plan.folder, [spec.path for spec in PLANNED_FILES.values()])
        if not plan.force:
            _refuse_others(plan.folder)
        entry, choice = find_entry(plan.model, plan.weights)
        with opened(choice, entry, progress, plan.offline) as source:
            loaded = read_for_model(source, entry)
        empty = describe_shared(entry, plan.signature, loaded.weights.provenance)
        empty = empty.changed(similarity=similarity(loaded))
        ledger = Ledger(plan.folder, empty, plan.variants, plan.force)
        digest = plan.pictures.digest if plan.pictures else None
        there = [
            name
            for name in plan.variants
            if name in ledger.content.variants
            and is_ranged_on(ledger.content.variants[name], digest, plan.scales)
            and ledger.content.variants[name].target == plan.target
        ]
        if there == list(plan.variants) and ledger.content.complete:
            return Outcome(plan.model, [ledger.content], already_there=there)
        ledger.write(complete=False)
        words = find_words(source, entry, plan.offline, progress)
        right: dict[str, bool] = {}
        *towers, whole = parts_of(entry, loaded)
        for tower in towers:
            with making(tower, plan, there, progress) as (_, files):
                right |= {n: _put_variant(plan, ledger, n, file, made) for n, file, made in files}
        with making(whole, plan, there, progress) as (maker, files):
            sessions: dict[str, Session] = {}
            for name, file, made in files:
                right[name] = _put_variant(plan, ledger, name, file, made)
                if right[name] and made.live:
                    sessions[name] = made.live
            ledger.drop_strangers()
            finish(maker, ledger, sessions, words, all(right.values()), progress)
        built = [name for name in right if right[name]]
        failed = [name for name in right if not right[name]]
        return Outcome(plan.model, [ledger.content], built, there, failed)


def is_ranged_on(variant: Variant, digest: str | None, scales: Scales) -> bool:
    """Whether its activations were ranged on the pictures of this digest, or scaled so, if it is in
    int8."""
    pictures = variant.calibration.sha256 if variant.calibration else None
    same = pictures == digest and (variant.scales or "tensor") == scales
    return variant.precision != "int8" or same


@contextmanager
def making(
    part: Part, plan: FolderPlan, there: Sequence[str], progress: Progress
) -> Generator[tuple[Maker, Iterator[tuple[str, Path, ExportedFile]]]]:
    """Maker of the files of a part, and those that are missing, while the block runs."""
    model, weights = abstract(part.loaded.config), part.loaded.weights
    signature = signature_of(part, plan)
    specs = plan.specs(part.files)
    missing = {spec: name for name, spec in specs.items() if name not in there}
    with prefetching(runs(part.entry, model, weights.arrays, signature)) as samples:
        maker = Maker(
            part.entry,
            model,
            weights,
            signature,
            samples,
            plan.target,
            pictures=plan.pictures,
            scales=plan.scales,
        )
        with making_files([*missing], plan.folder, maker, progress) as files:
            yield maker, ((missing[spec], file, made) for spec, file, made in files)


def signature_of(part: Part, plan: FolderPlan) -> Signature:
    """Signature of the files of a part: texts have no size."""
    has_sides = "pixel_values" in part.loaded.config.takes
    return plan.signature if has_sides else replace(plan.signature, size=None)


def _refuse_others(folder: Path) -> None:
    """**Raises** `BadOutput` if what is in the way of a build is the user's."""
    names = (CARD, *EXTRAS, *sorted({Path(spec.path).parts[0] for spec in PLANNED_FILES.values()}))
    theirs = [name for name in names if os.path.lexists(folder / name)]
    if theirs and not (folder / MANIFEST).exists():
        raise BadOutput(
            f"{folder / theirs[0]} is of no build: move it away, replace it with "
            f"{parameter('force')}, or choose another place with {parameter('out')}."
        )


def _put_variant(
    plan: FolderPlan, ledger: Ledger, name: str, file: Path, made: ExportedFile
) -> bool:
    """Publish a variant if it may stay; whether it does."""
    if not made.may_stay(plan.keep_inexact):
        return False
    folder = Path(PLANNED_FILES[name].path).parent
    # The sidecar first: a model without its tensors would be a wrong file.
    paths = [path for path in (sidecar_path(file), file) if path.exists()]
    names = [(folder / path.name).as_posix() for path in paths]
    variants = {**ledger.content.variants, name: describe_variant(made, names, plan.target)}
    in_order = {name: variants[name] for name in PLANNED_FILES if name in variants}
    ledger.publish(file.parent, names, made.digests, variants=in_order)
    return True


def finish(
    maker: Maker,
    ledger: Ledger,
    sessions: Mapping[str, Session],
    words: Words | None,
    complete: bool,
    progress: Progress,
) -> None:
    """Write anew what belongs to all variants; `sessions` are those that they just ran in."""
    sample = golden_sample(maker, ledger.content.preprocessing.settings)
    progress.stage("measuring speed")
    variants = ledger.content.variants
    files = {name: ledger.folder / VARIANTS[name].path for name in VARIANTS if name in variants}
    measured = speeds(files, sample.fed, sessions)
    progress.stage("writing what goes along")
    with staged(ledger.folder) as stage, writing(ledger.folder):
        write_extras(stage, maker, sample, ledger.content)
        more = write_words(stage, words) if words else ()
        extras = [name for name in EXTRAS if (stage / name).exists()]
        ledger.publish(stage, [*extras, *more], {}, speeds=measured)
        write_text(stage / CARD, card(ledger.content))
        ledger.publish(stage, [CARD], {}, complete=complete)
