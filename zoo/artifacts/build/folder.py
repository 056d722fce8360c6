"""Building one folder, file by file; what an earlier build proved is left as it is."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import converter
from weights.progress import Progress
from zoo.artifacts.build.card import card
from zoo.artifacts.build.extras import golden_sample, write_extras
from zoo.artifacts.build.ledger import OWNER, Ledger
from zoo.artifacts.build.plan import VARIANTS, Plan, Variant
from zoo.artifacts.build.speed import speeds
from zoo.checkpoints.load import load
from zoo.export.ahead import ahead
from zoo.export.describe import describe_variant, header
from zoo.export.make import Made, Maker, convert
from zoo.export.many import Outcome
from zoo.export.verify import runs
from zoo.files.staging import locked, refuse_links, sidecar_path, staged, sweep, writing
from zoo.models.build import abstract
from zoo.models.config import Config
from zoo.registry.lookup import info
from zoo.runtime import Session

CARD = "README.md"


def build(plan: Plan, progress: Progress) -> Outcome:
    """Build a folder, or what is missing of it.

    **Raises** a `ZooError` or a `WeightsError`; what is finished by then stays.
    """
    with locked(plan.folder, progress):
        refuse_links(plan.folder, [variant.file for variant in VARIANTS.values()])
        for place in (plan.folder, plan.folder / "onnx"):
            sweep(place, OWNER)
        entry = info(plan.model)
        loaded = load(plan.weights, entry, progress, plan.offline)
        empty = header(entry, plan.signature, loaded.weights.provenance)
        ledger = Ledger(plan.folder, empty, plan.variants, plan.force)
        there = [name for name in plan.variants if name in ledger.content.variants]
        if there == list(plan.variants) and ledger.content.complete:
            return Outcome(plan.model, [ledger.content], already_there=there)
        ledger.write(complete=False)
        model = abstract(loaded.config)
        with ahead(runs(entry, model, loaded.weights.arrays, plan.signature)) as samples:
            maker = Maker(entry, model, loaded.weights, plan.signature, samples)
            missing = [VARIANTS[name] for name in plan.variants if name not in there]
            right: dict[str, bool] = {}
            sessions: dict[str, Session] = {}
            for variant, file, made in make_variants(plan, maker, missing, progress):
                right[variant.name] = settle(plan, ledger, variant, file, made)
                if right[variant.name] and made.live:
                    sessions[variant.name] = made.live
            ledger.drop_strangers()
            finish(maker, loaded.config, ledger, sessions, all(right.values()), progress)
        built = [name for name in right if right[name]]
        failed = [name for name in right if not right[name]]
        return Outcome(plan.model, [ledger.content], built, there, failed)


def make_variants(
    plan: Plan, maker: Maker, missing: Sequence[Variant], progress: Progress
) -> Iterator[tuple[Variant, Path, Made]]:
    """Make variants, each staged as a file until the next one is asked for.

    All are made before the first is checked, for JAX takes a while to say what is right.
    """
    # The float32 file of an opset comes last: others are made from it before it takes images.
    in_order = sorted(missing, key=lambda variant: (variant.opset, variant.precision == "fp32"))
    with staged(plan.folder, OWNER) as workshop:
        exports = {
            opset: make_files(opset, list(variants), workshop, maker, progress)
            for opset, variants in groupby(in_order, attrgetter("opset"))
        }
        for variant in in_order:
            file = workshop / Path(variant.file).name
            export = exports[variant.opset]
            yield variant, file, maker.checked(file, variant.precision, export, progress)


def make_files(
    opset: int, variants: Sequence[Variant], workshop: Path, maker: Maker, progress: Progress
) -> converter.Export:
    """Write the variants of an opset under the names that they will have: a model knows its
    sidecar's. What they were made from."""
    source = workshop / FLOAT32[opset]
    progress.stage(f"opset {opset}: converting")
    export = convert(maker.model, opset, maker.signature)
    maker.float32(export, source, progress)
    for variant in variants:
        file = workshop / Path(variant.file).name
        if variant.precision != "fp32":
            maker.lower(source, file, variant.precision, progress)
        maker.take_images(file, opset, progress)
    return export


FLOAT32 = {v.opset: Path(v.file).name for v in VARIANTS.values() if v.precision == "fp32"}
"""The names of the variants in float32, which the others are made from, by opset."""


def settle(plan: Plan, ledger: Ledger, variant: Variant, file: Path, made: Made) -> bool:
    """Publish a variant if it is right, or to be kept; whether it was."""
    if not (made.right or (plan.keep_inexact and variant.precision != "fp32")):
        return False
    folder = Path(variant.file).parent
    # The sidecar first: a model without its tensors would be a wrong file.
    paths = [path for path in (sidecar_path(file), file) if path.exists()]
    names = [(folder / path.name).as_posix() for path in paths]
    described = describe_variant(made, names)
    variants = {**ledger.content.variants, variant.name: described}
    in_order = {name: variants[name] for name in VARIANTS if name in variants}
    ledger.publish(file.parent, names, made.digests, variants=in_order)
    return True


def finish(
    maker: Maker,
    config: Config,
    ledger: Ledger,
    sessions: Mapping[str, Session],
    complete: bool,
    progress: Progress,
) -> None:
    """What belongs to all variants; written anew whenever one was made.

    `sessions` are those that variants ran in just now.
    """
    sample = golden_sample(maker, ledger.content.preprocessing.settings)
    progress.stage("measuring speed")
    files = {name: ledger.folder / VARIANTS[name].file for name in ledger.content.variants}
    measured = speeds(files, sample.fed, sessions)
    progress.stage("writing what goes along")
    with staged(ledger.folder, OWNER) as stage, writing(ledger.folder):
        names = write_extras(stage, maker, config, sample, ledger.content)
        ledger.publish(stage, names, {}, speeds=measured)
        (stage / CARD).write_text(card(ledger.content))
        ledger.publish(stage, [CARD], {}, complete=complete)
