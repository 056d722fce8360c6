"""Write the files of a folder that are not networks: card, settings, licence, photograph, golden
numbers."""

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
from zoo.artifacts.descriptions import (
    RANDOM_WEIGHTS,
    describe_licence_doubt,
    find_base_model,
    render_markdown,
    variant_rows,
)
from zoo.artifacts.read import entry_of_manifest
from zoo.artifacts.schema import Manifest
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
from zoo.export.verify import Sample, make_samples
from zoo.images.photograph import STORED
from zoo.images.preprocessing import Preprocessing
from zoo.registry.model_descriptions import describe_purpose

PHOTOGRAPH = "photograph.png"
"""File with the photograph that the golden numbers of a network of pictures are computed for."""
GOLDEN = "golden.safetensors"
LICENCE = "LICENSE"

EXTRAS = (CONFIG, GOLDEN, LICENCE, PHOTOGRAPH, PROCESSOR)
"""Names of these files except the card. A folder has no licence file if the licence is not
known."""

HUB_LICENCES = {
    "apache-2.0.txt": "apache-2.0",
    "cc-by-4.0.txt": "cc-by-4.0",
    "cc-by-nc-4.0.txt": "cc-by-nc-4.0",
    "mit.txt": "mit",
}
"""Identifiers of licences on hubs, by the file with the text."""


def write_extras(stage: Path, subject: Subject, sample: Sample, manifest: Manifest) -> None:
    """Write configuration, preprocessing, golden numbers, photograph and licence to the folder
    `stage`.

    The golden numbers are those of `sample`. `manifest` lists the variants of the folder. The
    licence is written only if its text is in the package. The card is not written.
    """
    entry, preprocessing = subject.entry, manifest.preprocessing.settings
    settings = portable_config(entry.config, entry.class_names, entry.family, preprocessing.size)
    with_sidecar = [name for name, variant in manifest.variants.items() if len(variant.files) > 1]
    if js_config := transformers_js_settings(manifest.variants, with_sidecar):
        settings |= {"transformers.js_config": js_config}
    write_json(stage / CONFIG, settings)
    write_json(stage / PROCESSOR, transformers_processor(preprocessing))
    write_golden(stage / GOLDEN, make_golden(subject, sample))
    copies = {PHOTOGRAPH: STORED}
    if entry.licence.text:
        copies[LICENCE] = f"licences/{entry.licence.text}"
    for name, source in copies.items():
        with as_file(files("zoo") / "data" / source) as path:
            shutil.copyfile(path, stage / name)


def transformers_js_settings(
    variants: Collection[str], with_sidecar: Collection[str]
) -> dict[str, Any]:
    """Return the settings in `config.json` that transformers.js reads to load ONNX files.

    They name the variants whose weights are in a sidecar (`with_sidecar`). If `variants` lacks
    int8, the default in browsers, they name the best other variant for WebAssembly. The result is
    empty if neither is needed.
    """
    settings: dict[str, Any] = {}
    if with_sidecar:
        settings["use_external_data_format"] = {
            PLANNED_FILES[name].name: 1 for name in with_sidecar
        }
    dtype = next((name for name in IN_BROWSERS if name in variants), None)
    if dtype and "int8" not in variants:
        settings["device_config"] = {"wasm": {"dtype": dtype}}
    return settings


WEB_RANKS = {
    name: traits.web_rank for name, traits in PRECISIONS.items() if traits.web_rank is not None
}
"""Rank of each precision that WebAssembly runs."""
IN_BROWSERS = sorted(WEB_RANKS, key=WEB_RANKS.__getitem__)
"""Precisions that WebAssembly runs, the best first. transformers.js has the same names for them."""


def make_golden(subject: Subject, sample: Sample) -> Golden:
    """Return golden numbers with the inputs and the JAX outputs of a sample."""
    outputs = {name: np.asarray(value) for name, value in sample.outputs.items()}
    digest = subject.weights.provenance.sha256 or ""
    made_by = f"jax {jax.__version__}"
    return Golden(subject.entry.name, made_by, digest, sample.feeds, outputs)


def choose_golden_sample(production: Production, preprocessing: Preprocessing) -> Sample:
    """Return the sample whose numbers are stored with a folder: a photograph as the published
    preprocessing makes it.

    It is the first sample of the verification, if that has the same pictures or if the files take
    images in uint8. Otherwise a sample of the size of `preprocessing` is computed in JAX.
    `production` must have samples.
    """
    assert production.samples is not None
    first, subject = production.samples()[0], production.subject
    entry = replace(subject.entry, preprocessing=preprocessing)
    sample, pictures = sample_inputs(entry, 1, preprocessing.size), entry.config.pictures
    if first.images is not None or _have_same_pictures(pictures, first.inputs, sample):
        return first
    # DINOv2, for example, has positions for 518 x 518 pixels, and its published preprocessing makes
    # pictures of 224 x 224 pixels.
    signature = replace(production.signature, size=preprocessing.size, batch=1)
    return make_samples(entry, subject.model, subject.weights.arrays, signature)[0]


def _have_same_pictures(pictures: PictureInput | None, first: Inputs, second: Inputs) -> bool:
    """Return whether two samples have the same arrays of pictures. True for a network that takes no
    pictures."""
    names = pictures.names if pictures is not None else ()
    return all(np.array_equal(first[name], second[name]) for name in names)


def describe_picture_arrays(config: Config) -> str:
    """Return a sentence with the name, type and shape of each array that files take of a picture,
    or an empty string if the network takes no pictures."""
    pictures = config.pictures
    if pictures is None:
        return ""
    batch = batch_name(config.inputs, pictures.kind)
    shapes = (", ".join(map(str, (batch, *array.shape))) for array in pictures.arrays)
    descriptions = (
        f"`{array.name}`: {array.dtype} `[{shape}]`"
        for array, shape in zip(pictures.arrays, shapes, strict=True)
    )
    return f"{'; '.join(descriptions)}."


def render_card(manifest: Manifest) -> str:
    """Return the text of the model card, `README.md`, of a folder with this manifest.

    The example programs in it run as they are if they are started in the folder.
    """
    entry, preprocessing = entry_of_manifest(manifest), manifest.preprocessing.settings
    variants = manifest.variants
    outputs = {item.name for variant in variants.values() for item in variant.outputs}
    return render_markdown(
        "card.md.jinja",
        **{**dict(manifest), "outputs": outputs},
        hub_licence=HUB_LICENCES.get(manifest.licence.text),
        config=entry.config,
        arrays=describe_picture_arrays(entry.config),
        base_model=find_base_model(manifest, entry),
        purpose=describe_purpose(entry),
        papers=entry.paper_pages if manifest.licence.name != UNSTATED else (),
        is_stated=manifest.licence.name != UNSTATED,
        described=entry.config.task.describe_outputs(entry.pooler),
        pooler=entry.pooler,
        examples=entry.examples,
        drawn=entry.is_drawn,
        photograph=PHOTOGRAPH,
        doubt=describe_licence_doubt(manifest.weights),
        not_trained=RANDOM_WEIGHTS.format(seed=manifest.weights.seed),
        rows=[(variants[name], *numbers) for name, *numbers in variant_rows(manifest)],
        without_runtime=[
            variant.file for variant in variants.values() if variant.minimum_runtime is None
        ],
        oldest_on_cuda=OLDEST_ON_CUDA,
        oldest={name: target.oldest for name, target in converter.TARGETS.items()},
        by_tensor=[variant.file for variant in variants.values() if variant.scales == "tensor"],
        how=preprocessing,
        steps=preprocessing.description,
    )
