"""Build one folder, file by file. Files that an earlier build verified are kept."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from weights import LazyArrays, Weights
from weights.parameters import parameter
from weights.progress import Progress
from zoo.architectures.builder import abstract
from zoo.architectures.entry import ModelInfo
from zoo.architectures.kinds import nested_networks
from zoo.artifacts.choices import Scales
from zoo.artifacts.measured import Speeds, StatedSimilarity
from zoo.artifacts.schema import MANIFEST, Manifest, Variant
from zoo.checkpoints.checkpoint_tokenizer import Words, find_words
from zoo.checkpoints.convert import write_json
from zoo.checkpoints.load import LoadedWeights, read_for_model
from zoo.checkpoints.pretrained import find_entry
from zoo.checkpoints.source import opened
from zoo.common import runtime
from zoo.common.errors import BadOutput
from zoo.common.runtime import Session
from zoo.common.staging import (
    locked_output,
    refuse_links,
    staged,
    write_text,
    writing,
)
from zoo.export.assemble.extras import EXTRAS, card, golden_sample, write_extras
from zoo.export.assemble.ledger import Ledger
from zoo.export.assemble.plan import PLANNED_FILES, VARIANTS
from zoo.export.describe import describe_shared
from zoo.export.exporter import Outcome
from zoo.export.make import ExportedFile, Production, produce
from zoo.export.network_inputs import Inputs
from zoo.export.precisions import PRECISIONS
from zoo.export.request import FileSpec, Plan
from zoo.export.subject import Subject
from zoo.export.timing.rounds import (
    affordable,
    interleave,
    machine,
    run_once,
    speeds_beside,
    watch_others,
)
from zoo.texts.tokenizer import SETTINGS, WORDS, read_tokenizer_settings, read_words


def similarity(loaded: LoadedWeights) -> StatedSimilarity | None:
    """Similarity of a network with two towers; None for others."""
    how = loaded.config.task.similarity
    if how is None:
        return None
    scale, bias = how(loaded.weights.arrays)
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


def parts_of(entry: ModelInfo, loaded: LoadedWeights) -> Iterator[tuple[str, Subject]]:
    """The towers of a network with their names, if there are any, and then the whole without."""
    parts = nested_networks(loaded.config)
    for tower, field in loaded.config.towers.items():
        model, weights = abstract(parts[field]), inner(loaded.weights, f"{field}.")
        own_entry = replace(entry, config=parts[field])
        yield tower, Subject(own_entry, model, weights, is_network=True)
    yield "", Subject(entry, abstract(loaded.config), loaded.weights, is_network=True)


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
        if PRECISIONS[VARIANTS[name].precision].on_cpu:
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


def build_folder(plan: Plan, progress: Progress) -> Outcome:
    """Build a folder, or what is missing of it.

    **Raises** a `ZooError` or a `WeightsError`; what is finished by then stays.
    """
    options = plan.options
    with locked_output(plan.folder, progress):
        refuse_links(plan.folder, [spec.path for spec in PLANNED_FILES.values()])
        if not options.force:
            _refuse_others(plan.folder)
        entry, choice = find_entry(plan.model.name, plan.weights)
        with opened(choice, entry, progress, options.offline) as source:
            loaded = read_for_model(source, entry)
        empty = describe_shared(entry, plan.signature, loaded.weights.provenance)
        empty = empty.changed(similarity=similarity(loaded))
        ledger = Ledger(plan.folder, empty, [spec.variant for spec in plan.files], options.force)
        missing = missing_files(plan, ledger.content)
        there = [spec.variant for spec in plan.files if spec not in missing]
        if not missing and ledger.content.complete:
            return Outcome(entry.name, [ledger.content], already_there=there)
        ledger.write(complete=False)
        words = find_words(source, entry, options.offline, progress)
        published: dict[str, bool] = {}
        sessions: dict[str, Session] = {}
        for tower, subject in parts_of(entry, loaded):
            specs = [spec for spec in missing if spec.tower == tower]
            with produce(plan, subject, progress, tower) as production:
                for file in production.files(specs):
                    put = partial(_put_variant, ledger, file)
                    name = file.spec.variant
                    published[name] = file.publish(options.keep_inexact, put)
                    if published[name] and file.session and not tower:
                        sessions[name] = file.session
                if not tower:
                    ledger.drop_strangers()
                    is_complete = all(published.values())
                    finish(production, ledger, sessions, words, is_complete, progress)
        return Outcome(
            entry.name,
            [ledger.content],
            [name for name, is_published in published.items() if is_published],
            there,
            [name for name, is_published in published.items() if not is_published],
        )


def missing_files(plan: Plan, content: Manifest) -> list[FileSpec]:
    """The files of a plan that an earlier build did not publish, or with other options."""
    digest = plan.pictures.digest if plan.pictures else None

    def is_there(variant: Variant) -> bool:
        is_same = is_ranged_on(variant, digest, plan.options.scales)
        return is_same and variant.target == plan.options.target

    variants = content.variants
    return [
        spec
        for spec in plan.files
        if spec.variant not in variants or not is_there(variants[spec.variant])
    ]


def is_ranged_on(variant: Variant, digest: str | None, scales: Scales) -> bool:
    """Whether its activations were ranged on the pictures of this digest, or scaled so, if they are
    integers."""
    pictures = variant.calibration.sha256 if variant.calibration else None
    same = pictures == digest and (variant.scales or "tensor") == scales
    return same or not PRECISIONS[variant.precision].scales_activations


def _refuse_others(folder: Path) -> None:
    """**Raises** `BadOutput` if what is in the way of a build is the user's."""
    names = (CARD, *EXTRAS, *sorted({Path(spec.path).parts[0] for spec in PLANNED_FILES.values()}))
    theirs = [name for name in names if os.path.lexists(folder / name)]
    if theirs and not (folder / MANIFEST).exists():
        raise BadOutput(
            f"{folder / theirs[0]} is of no build: move it away, replace it with "
            f"{parameter('force')}, or choose another place with {parameter('out')}."
        )


def _put_variant(ledger: Ledger, file: ExportedFile) -> None:
    variants = {**ledger.content.variants, file.spec.variant: file.variant}
    in_order = {name: variants[name] for name in PLANNED_FILES if name in variants}
    # The sidecar first: a model without its tensors would be a wrong file.
    names = file.variant.files[::-1]
    ledger.publish(file.path.parent, names, file.digests, variants=in_order)


def finish(
    production: Production,
    ledger: Ledger,
    sessions: Mapping[str, Session],
    words: Words | None,
    complete: bool,
    progress: Progress,
) -> None:
    """Write anew what belongs to all variants; `sessions` are those that they just ran in."""
    sample = golden_sample(production, ledger.content.preprocessing.settings)
    progress.stage("measuring speed")
    variants = ledger.content.variants
    files = {name: ledger.folder / VARIANTS[name].path for name in VARIANTS if name in variants}
    measured = speeds(files, sample.fed, sessions)
    progress.stage("writing what goes along")
    with staged(ledger.folder) as stage, writing(ledger.folder):
        write_extras(stage, production.subject, sample, ledger.content)
        more = write_words(stage, words) if words else ()
        extras = [name for name in EXTRAS if (stage / name).exists()]
        ledger.publish(stage, [*extras, *more], {}, speeds=measured)
        write_text(stage / CARD, card(ledger.content))
        ledger.publish(stage, [CARD], {}, complete=complete)
