"""Building one folder, file by file; what an earlier build proved is left as it is."""

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from weights.parameters import parameter
from weights.progress import Progress
from zoo.architectures.builder import abstract
from zoo.artifacts.choices import Scales
from zoo.artifacts.schema import MANIFEST, Variant
from zoo.checkpoints.checkpoint_tokenizer import Words, find_words
from zoo.checkpoints.load import read_for_model
from zoo.checkpoints.pretrained import find_entry
from zoo.checkpoints.source import opened
from zoo.common.errors import BadOutput
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
from zoo.export.assemble.plan import PLANNED_FILES, VARIANTS, FolderPlan
from zoo.export.assemble.similarity import similarity
from zoo.export.assemble.speed import speeds
from zoo.export.assemble.tokenizer_files import write_words
from zoo.export.assemble.towers import Part, parts_of
from zoo.export.bulk import Outcome
from zoo.export.describe import describe_shared, describe_variant
from zoo.export.exporter import prefetching
from zoo.export.make import Made, Maker, making_files
from zoo.export.request import Signature
from zoo.export.verify import runs

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
) -> Generator[tuple[Maker, Iterator[tuple[str, Path, Made]]]]:
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


def _put_variant(plan: FolderPlan, ledger: Ledger, name: str, file: Path, made: Made) -> bool:
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
