"""The files of a folder beside networks: card, settings, licence, photograph, golden numbers."""

import shutil
from collections.abc import Collection
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import jax
import numpy as np

import converter
from converter.opsets import OLDEST_ON_CUDA
from zoo.architectures.architecture import Config
from zoo.architectures.entry import UNSTATED
from zoo.architectures.inputs import PictureInput, batch_name
from zoo.artifacts.read import stated_entry
from zoo.artifacts.schema import Manifest
from zoo.artifacts.words import NOT_TRAINED, base_model, build_rows, doubt, markdown
from zoo.checkpoints.convert import write_json
from zoo.checkpoints.settings.library_configs import portable_config
from zoo.checkpoints.settings.processors import transformers_processor
from zoo.checkpoints.settings.settings_files import CONFIG, PROCESSOR
from zoo.common.golden_file import Golden, write_golden
from zoo.export.assemble.plan import PLANNED_FILES
from zoo.export.make import Production
from zoo.export.network_inputs import Inputs, sample_inputs
from zoo.export.precisions import PRECISIONS
from zoo.export.subject import Subject
from zoo.export.verify import Sample, reference
from zoo.images.photograph import STORED
from zoo.images.preprocessing import Preprocessing
from zoo.registry.model_words import purpose

PHOTOGRAPH = "photograph.png"
GOLDEN = "golden.safetensors"
LICENCE = "LICENSE"

EXTRAS = (CONFIG, GOLDEN, LICENCE, PHOTOGRAPH, PROCESSOR)
"""What they are called, but for the card, which is about all of them; there is no licence where
nobody has stated one."""

HUB_LICENCES = {
    "apache-2.0.txt": "apache-2.0",
    "cc-by-4.0.txt": "cc-by-4.0",
    "cc-by-nc-4.0.txt": "cc-by-nc-4.0",
    "mit.txt": "mit",
}
"""Licences that hubs have a word for."""


def write_extras(stage: Path, subject: Subject, sample: Sample, manifest: Manifest) -> None:
    """Write them to `stage`, with the numbers of a golden sample."""
    entry, how = subject.entry, manifest.preprocessing.settings
    settings = portable_config(entry.config, entry.class_names, entry.family, how.size)
    outside = [name for name, variant in manifest.variants.items() if len(variant.files) > 1]
    if js_config := for_transformers_js(manifest.variants, outside):
        settings |= {"transformers.js_config": js_config}
    write_json(stage / CONFIG, settings)
    write_json(stage / PROCESSOR, transformers_processor(how))
    write_golden(stage / GOLDEN, golden(subject, sample))
    copies = {PHOTOGRAPH: STORED}
    if entry.licence.text:
        copies[LICENCE] = f"licences/{entry.licence.text}"
    for name, source in copies.items():
        with as_file(files("zoo") / "data" / source) as path:
            shutil.copyfile(path, stage / name)


def for_transformers_js(variants: Collection[str], outside: Collection[str]) -> dict[str, Any]:
    """Settings that transformers.js does not guess: which variants have their tensors `outside`,
    and what a browser is to take where there is no int8, for which it would ask."""
    settings: dict[str, Any] = {}
    if outside:
        settings["use_external_data_format"] = {PLANNED_FILES[name].name: 1 for name in outside}
    dtype = next((name for name in IN_BROWSERS if name in variants), None)
    if dtype and "int8" not in variants:
        settings["device_config"] = {"wasm": {"dtype": dtype}}
    return settings


RANKS = {name: traits.rank for name, traits in PRECISIONS.items() if traits.rank is not None}
IN_BROWSERS = sorted(RANKS, key=RANKS.__getitem__)
"""What WebAssembly runs, the best of them first; so transformers.js calls them, too."""


def golden(subject: Subject, sample: Sample) -> Golden:
    """The photograph as the network gets it from a client, and what it makes of it in JAX."""
    outputs = {name: np.asarray(value) for name, value in sample.outputs.items()}
    digest = subject.weights.provenance.sha256 or ""
    made_by = f"jax {jax.__version__}"
    return Golden(subject.entry.name, made_by, digest, sample.fed, outputs)


def golden_sample(production: Production, how: Preprocessing) -> Sample:
    """The first sample, unless its pixels are not those that the published settings lead to."""
    assert production.samples is not None
    first, subject = production.samples()[0], production.subject
    entry = replace(subject.entry, preprocessing=how)
    sample, pictures = sample_inputs(entry, 1, how.size), entry.config.pictures
    if first.images is not None or _same_pictures(pictures, first.inputs, sample):
        return first
    # DINOv2's positions are those of 518 x 518 pixels, its processor makes 224 x 224.
    signature = replace(production.signature, size=how.size, batch=1)
    return reference(entry, subject.model, subject.weights.arrays, signature)[0]


def _same_pictures(pictures: PictureInput | None, one: Inputs, other: Inputs) -> bool:
    """Return whether what a network gets of pictures is the same, whatever texts it gets."""
    names = pictures.names if pictures is not None else ()
    return all(np.array_equal(one[name], other[name]) for name in names)


def picture_arrays(config: Config) -> str:
    """Return words about the arrays that files of a network take of a picture."""
    pictures = config.pictures
    if pictures is None:
        return ""
    batch = batch_name(config.inputs, pictures.kind)
    shapes = (", ".join(map(str, (batch, *array.shape))) for array in pictures.arrays)
    listed = (
        f"`{array.name}`: {array.dtype} `[{shape}]`"
        for array, shape in zip(pictures.arrays, shapes, strict=True)
    )
    return f"{'; '.join(listed)}."


def card(manifest: Manifest) -> str:
    """`README.md`: Markdown, whose programs run as they stand if they are started in the folder."""
    entry, how = stated_entry(manifest), manifest.preprocessing.settings
    variants = manifest.variants
    outputs = {item.name for variant in variants.values() for item in variant.outputs}
    return markdown(
        "card.md.jinja",
        **{**dict(manifest), "outputs": outputs},
        hub_licence=HUB_LICENCES.get(manifest.licence.text),
        config=entry.config,
        arrays=picture_arrays(entry.config),
        base_model=base_model(manifest, entry),
        purpose=purpose(entry),
        papers=entry.paper_pages if manifest.licence.name != UNSTATED else (),
        is_stated=manifest.licence.name != UNSTATED,
        described=entry.config.task.described(entry.pooler),
        pooler=entry.pooler,
        examples=entry.examples,
        drawn=entry.is_drawn,
        photograph=PHOTOGRAPH,
        doubt=doubt(manifest.weights),
        not_trained=NOT_TRAINED.format(seed=manifest.weights.seed),
        rows=[(variants[name], *numbers) for name, *numbers in build_rows(manifest)],
        without_runtime=[each.file for each in variants.values() if each.minimum_runtime is None],
        oldest_on_cuda=OLDEST_ON_CUDA,
        oldest={name: target.oldest for name, target in converter.TARGETS.items()},
        by_tensor=[each.file for each in variants.values() if each.scales == "tensor"],
        how=how,
        steps=how.words,
    )
