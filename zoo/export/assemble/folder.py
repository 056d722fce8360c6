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
from zoo.checkpoints.checkpoint_tokenizer import TokenizerFiles, find_tokenizer_files
from zoo.checkpoints.convert import write_json
from zoo.checkpoints.load import LoadedWeights, read_for_model
from zoo.checkpoints.pretrained import find_entry
from zoo.checkpoints.source import open_weight_source
from zoo.common import runtime
from zoo.common.errors import BadOutput
from zoo.common.runtime import Session
from zoo.common.staging import (
    check_no_links,
    locked_output,
    staged,
    translate_write_errors,
    write_text,
)
from zoo.export.assemble.extras import EXTRAS, choose_golden_sample, render_card, write_extras
from zoo.export.assemble.ledger import Ledger
from zoo.export.assemble.plan import PLANNED_FILES, VARIANTS
from zoo.export.describe import make_shared_manifest
from zoo.export.exporter import Outcome
from zoo.export.make import ExportedFile, Production, open_production
from zoo.export.network_inputs import Inputs
from zoo.export.precisions import PRECISIONS
from zoo.export.request import FileSpec, Plan
from zoo.export.subject import Subject
from zoo.export.timing.rounds import (
    as_task,
    choose_rounds,
    describe_machine,
    measure_interleaved,
    relative_speeds,
    watch_other_programs,
)
from zoo.texts.tokenizer import SETTINGS, WORDS, read_tokenizer_settings, read_words


def read_similarity(loaded: LoadedWeights) -> StatedSimilarity | None:
    """Return the scale and bias of the similarities that a network with two towers computes, or
    None for other networks."""
    similarity_of = loaded.config.task.similarity
    if similarity_of is None:
        return None
    scale, bias = similarity_of(loaded.weights.arrays)
    is_independent = loaded.config.scores == "sigmoid"
    return StatedSimilarity(
        scale=scale, bias=bias, probabilities="sigmoid" if is_independent else "softmax"
    )


def write_tokenizer(stage: Path, tokenizer: TokenizerFiles) -> tuple[str, ...]:
    """Write the files of a tokenizer to the folder `stage`, and return their names.

    The settings are completed by the length of texts, for clients that read no other file.
    """
    write_text(stage / WORDS, read_words(tokenizer.folder))
    _, settings = read_tokenizer_settings(tokenizer.folder)
    defaults = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>"}
    write_json(stage / SETTINGS, defaults | settings | {"model_max_length": tokenizer.tokens})
    return WORDS, SETTINGS


def iterate_networks(entry: ModelInfo, loaded: LoadedWeights) -> Iterator[tuple[str, Subject]]:
    """Yield each tower of a network with its name, and at last the full network with an empty name.

    A network without towers is yielded alone.
    """
    parts = nested_networks(loaded.config)
    for tower, field in loaded.config.towers.items():
        model, weights = abstract(parts[field]), select_weights(loaded.weights, f"{field}.")
        tower_entry = replace(entry, config=parts[field])
        yield tower, Subject(tower_entry, model, weights, is_network=True)
    yield "", Subject(entry, abstract(loaded.config), loaded.weights, is_network=True)


def select_weights(weights: Weights, prefix: str) -> Weights:
    """Return the weights whose paths begin with `prefix`, without the prefix. They are those of a
    part of the network."""
    tensors = weights.arrays.tensors.items()
    selected = {
        name.removeprefix(prefix): tensor for name, tensor in tensors if name.startswith(prefix)
    }
    return replace(weights, arrays=LazyArrays(selected))


def measure_speeds(
    files: Mapping[str, Path],
    feeds: Inputs,
    sessions: Mapping[str, runtime.Session],
) -> Speeds:
    """Run the files of several variants on one sample, and return their speeds.

    Files run on the CPU. Rounds are interleaved, so that changes of the machine's speed affect all
    variants equally. Variants without kernels for CPUs are left out. Ratios are relative to the
    variant `fp32`.

    **Arguments:**

    - `files`: paths of the ONNX files of full networks, by variant.
    - `feeds`: inputs to run them on, by name.
    - `sessions`: sessions that are open already, by variant. Other files are opened.
    """
    tasks = {}
    for name, path in files.items():
        if PRECISIONS[VARIANTS[name].precision].on_cpu:
            session = sessions.get(name) or runtime.session(path)
            tasks[name] = as_task(session, feeds)
    rounds = choose_rounds(tasks.values())
    used_cores = watch_other_programs()
    times = measure_interleaved(tasks, rounds)
    cores = used_cores()
    return Speeds(
        runtime=f"{runtime.VERSION}, CPU, all cores",
        machine=describe_machine(),
        others=None if cores is None else round(cores, 2),
        input=next(iter(feeds.values())).shape,
        rounds=rounds,
        variants=relative_speeds(times, "fp32"),
    )


CARD = "README.md"


def build_folder(plan: Plan, progress: Progress) -> Outcome:
    """Build the folder of a plan: its ONNX files, and the files that belong to all of them.

    Files of an earlier build are kept if they are intact and were made with the same options and
    versions. If no file is missing from a complete folder, nothing is written.

    **Raises** a `ZooError` or a `WeightsError`. Files that were published before the error stay in
    the folder.
    """
    options = plan.options
    with locked_output(plan.folder, progress):
        check_no_links(plan.folder, [spec.path for spec in PLANNED_FILES.values()])
        if not options.force:
            _check_replaceable(plan.folder)
        entry, choice = find_entry(plan.model.name, plan.weights)
        with open_weight_source(choice, entry, progress, options.offline) as source:
            loaded = read_for_model(source, entry)
        header = make_shared_manifest(entry, plan.signature, loaded.weights.provenance)
        header = header.with_changes(similarity=read_similarity(loaded))
        ledger = Ledger(plan.folder, header, [spec.variant for spec in plan.files], options.force)
        missing = find_missing_files(plan, ledger.manifest)
        existing = [spec.variant for spec in plan.files if spec not in missing]
        if not missing and ledger.manifest.complete:
            return Outcome(entry.name, [ledger.manifest], already_there=existing)
        ledger.write(complete=False)
        tokenizer = find_tokenizer_files(source, entry, options.offline, progress)
        published: dict[str, bool] = {}
        sessions: dict[str, Session] = {}
        for tower, subject in iterate_networks(entry, loaded):
            specs = [spec for spec in missing if spec.tower == tower]
            with open_production(plan, subject, progress, tower) as production:
                for file in production.write_and_verify(specs):
                    publish = partial(_publish_variant, ledger, file)
                    name = file.spec.variant
                    published[name] = file.publish(options.keep_inexact, publish)
                    if published[name] and file.session and not tower:
                        sessions[name] = file.session
                if not tower:
                    ledger.remove_left_over_files()
                    is_complete = all(published.values())
                    write_shared_files(
                        production, ledger, sessions, tokenizer, is_complete, progress
                    )
        return Outcome(
            entry.name,
            [ledger.manifest],
            [name for name, is_published in published.items() if is_published],
            existing,
            [name for name, is_published in published.items() if not is_published],
        )


def find_missing_files(plan: Plan, content: Manifest) -> list[FileSpec]:
    """Return the files of a plan that have to be written.

    They are the variants that the manifest `content` of an earlier build does not list, or lists
    with another target, calibration or scaling of activations.
    """
    digest = plan.pictures.digest if plan.pictures else None

    def is_up_to_date(variant: Variant) -> bool:
        """Return whether an earlier file was made with the options of the plan."""
        is_same = has_same_activations(variant, digest, plan.options.scales)
        return is_same and variant.target == plan.options.target

    variants = content.variants
    return [
        spec
        for spec in plan.files
        if spec.variant not in variants or not is_up_to_date(variants[spec.variant])
    ]


def has_same_activations(variant: Variant, digest: str | None, scales: Scales) -> bool:
    """Return whether an earlier file scales its activations as requested.

    `digest` is the digest of the calibration pictures, or None without calibration. `scales` is
    whether activations have scales by tensor or by row. True for a precision whose activations are
    not integers.
    """
    pictures = variant.calibration.sha256 if variant.calibration else None
    is_equal = pictures == digest and (variant.scales or "tensor") == scales
    return is_equal or not PRECISIONS[variant.precision].scales_activations


def _check_replaceable(folder: Path) -> None:
    """Check that the build would not replace files of the user.

    **Raises** `BadOutput` if the folder has a file or folder of a name that the build writes, and
    no manifest.
    """
    names = (CARD, *EXTRAS, *sorted({Path(spec.path).parts[0] for spec in PLANNED_FILES.values()}))
    user_files = [name for name in names if os.path.lexists(folder / name)]
    if user_files and not (folder / MANIFEST).exists():
        raise BadOutput(
            f"{folder / user_files[0]} is of no build: move it away, replace it with "
            f"{parameter('force')}, or choose another place with {parameter('out')}."
        )


def _publish_variant(ledger: Ledger, file: ExportedFile) -> None:
    """Move a verified file and its sidecar to the folder, and add it to the manifest."""
    variants = {**ledger.manifest.variants, file.spec.variant: file.variant}
    in_order = {name: variants[name] for name in PLANNED_FILES if name in variants}
    # The sidecar is moved first, because a model without its tensors does not load.
    names = file.variant.files[::-1]
    ledger.publish(file.path.parent, names, file.digests, variants=in_order)


def write_shared_files(
    production: Production,
    ledger: Ledger,
    sessions: Mapping[str, Session],
    tokenizer: TokenizerFiles | None,
    is_complete: bool,
    progress: Progress,
) -> None:
    """Write the files of a folder that belong to all variants, and measure the variants' speeds.

    The files are card, configuration, preprocessing, golden numbers, photograph, licence and
    tokenizer.

    **Arguments:**

    - `production`: the work on the full network, with its samples.
    - `ledger`: the manifest of the folder.
    - `sessions`: sessions in which variants were verified, by variant.
    - `tokenizer`: files of the tokenizer, or None if there is none.
    - `is_complete`: whether all variants were published, for the manifest.
    - `progress`: reports progress.
    """
    sample = choose_golden_sample(production, ledger.manifest.preprocessing.settings)
    progress.stage("measuring speed")
    variants = ledger.manifest.variants
    files = {name: ledger.folder / VARIANTS[name].path for name in VARIANTS if name in variants}
    speeds = measure_speeds(files, sample.feeds, sessions)
    progress.stage("writing what goes along")
    with staged(ledger.folder) as stage, translate_write_errors(ledger.folder):
        write_extras(stage, production.subject, sample, ledger.manifest)
        tokenizer_files = write_tokenizer(stage, tokenizer) if tokenizer else ()
        extras = [name for name in EXTRAS if (stage / name).exists()]
        ledger.publish(stage, [*extras, *tokenizer_files], {}, speeds=speeds)
        write_text(stage / CARD, render_card(ledger.manifest))
        ledger.publish(stage, [CARD], {}, complete=is_complete)
