"""`zoo.load`: a built model, ready to run in ONNX Runtime. JAX is not needed for that."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zoo.artifacts.choices import TOWERS, tower_variant
from zoo.common.errors import BadFile, BadRequest, first_line
from zoo.common.html import html_table
from zoo.images.pictures import Pictures, pictures, stack
from zoo.registry.lookup import info
from zoo.tasks.answer import TEMPLATE, in_sentences, likeliest_first

if TYPE_CHECKING:
    from zoo.artifacts.described_file import DescribedFile
    from zoo.artifacts.find import FoundVariant
    from zoo.artifacts.schema import Manifest, Variant
    from zoo.common.runtime import Session
    from zoo.tasks.answer import Answer, PictureAnswer
    from zoo.texts.tokenizer import Tokenizer


@dataclass(frozen=True, repr=False)
class VisionModel:
    """A model with its preprocessing. Call it with pictures to get its outputs by name."""

    manifest: Manifest
    variant: Variant
    path: Path
    session: Session
    towers: dict[str, DescribedFile] = field(default_factory=dict, compare=False)

    def __repr__(self) -> str:
        outputs = ", ".join(output.name for output in self.session.get_outputs())
        name = f"{self.manifest.model} in {self.variant.precision}"
        return f"<VisionModel {name} on {self.session.get_providers()[0]}, which gives {outputs}>"

    def _repr_html_(self) -> str:
        facts = {
            "precision": self.variant.precision,
            "opset": self.variant.opset,
            "inputs": ", ".join(map(str, self.variant.inputs)),
            "outputs": ", ".join(map(str, self.variant.outputs)),
            "runs on": ", ".join(self.session.get_providers()),
            "file": self.path,
        }
        return html_table(self.manifest.model, facts.items())

    def preprocess(self, images: Pictures) -> NDArray[np.float32] | NDArray[np.uint8]:
        """Make what the session takes: `pixel_values [n, 3, H, W]`, or `image [n, H, W, 3]` in
        uint8.

        **Arguments:** one picture or several. They are resized and cropped to the model's size,
        unless the file does that itself: then they must be equally large.

        **Raises** `BadRequest`.
        """
        from zoo.images.pixel_values import check_edges, pixel_values

        several = pictures(images)
        how = self.manifest.preprocessing.settings
        if self.manifest.input == "uint8":
            for image in several:
                check_edges((image.height, image.width), how)
            return stack(several)
        if self.manifest.size is not None:
            return pixel_values(several, how, self.manifest.size)
        sizes = {how.fitted(image.height, image.width) for image in several}
        return pixel_values(several, how, sizes.pop() if len(sizes) == 1 else how.size)

    def __call__(self, images: Pictures) -> dict[str, NDArray[np.generic]]:
        """The model's outputs for these pictures, as `[n, ...]`, by name."""
        taken = self._taken
        return self._described.run(self._names, {taken: self.preprocess(images)})

    @property
    def _taken(self) -> str:
        """Name of the only input. **Raises** `BadRequest` where there are several, or texts."""
        taken = [each.name for each in self.session.get_inputs()]
        if len(taken) != 1 or taken == ["input_ids"]:
            raise BadRequest(
                f"{self.manifest.model} takes {' and '.join(taken) or 'nothing'}, not pictures "
                "alone: of one that compares them with texts ask its `text`, `image` or `classify`."
            )
        return taken[0]

    @property
    def _described(self) -> DescribedFile:
        from zoo.artifacts.described_file import DescribedFile

        return DescribedFile(self.path, self.manifest, self.variant, self.session)

    @property
    def _names(self) -> list[str]:
        return [output.name for output in self.session.get_outputs()]

    def answer(self, images: Pictures, threshold: float | None = None) -> list[PictureAnswer]:
        """Answer about each picture: classes, depths, its features, or things in boxes,
        of which it is surer than `threshold`."""
        from zoo.artifacts.read import stated_entry
        from zoo.tasks.answer import AskedPicture, InputSize, Question

        how, entry = self.manifest.preprocessing.settings, stated_entry(self.manifest)
        answers = []
        for image in pictures(images):
            feeds = {self._taken: self.preprocess([image])}
            rows = self._described.run_network(self._names, feeds)
            outputs = {name: output[0] for name, output in rows.items()}
            size = image.height, image.width
            fed = InputSize(self.manifest.size or how.fitted(*size), how.padded)
            asked = AskedPicture(entry.class_names, size, fed, image)
            answers.append(entry.config.task.answer(outputs, asked, Question(threshold=threshold)))
        return answers

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Tokenizer that makes `input_ids` of texts. **Raises** `BadRequest` for a model of
        pictures alone, `BadFile`, or `MissingLibrary` without the library tokenizers."""
        from zoo.artifacts.read import stated_entry
        from zoo.texts.tokenizer import read_tokenizer

        words = stated_entry(self.manifest).config.words
        if words is None or not any(each.name == "input_ids" for each in self.variant.inputs):
            raise BadRequest(f"{self.manifest.model} takes pictures alone: give it no texts.")
        return read_tokenizer(self.path.parent.parent, words.tokens)

    def text(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of texts, `[n, dim]`, at length 1: a product with those of pictures is a cosine,
        of which the manifest's `similarity` makes a logit. **Raises** as `tokenizer`."""
        return self._vectors("input_ids", self._encoded(texts))

    def image(self, images: Pictures) -> NDArray[np.float32]:
        """Vectors of pictures, `[n, dim]`, at length 1. **Raises** `BadRequest` for a model without
        texts that they could be compared with."""
        return self._vectors("pixel_values", {"pixel_values": self.preprocess(images)})

    def classify(
        self, picture: Pictures, labels: Sequence[str], template: str = TEMPLATE
    ) -> list[Answer]:
        """How likely each label is about a picture; the likeliest first. The manifest's
        `similarity` says whether the others count: not for SigLIP 2, but for the others,
        where all of them together make 1.

        **Arguments:** one picture; what may be in it, in words; and the sentence that they are put
        into, with `{}` in their place.

        **Raises** `BadRequest` for a model that does not compare pictures with texts.

        >>> zoo.load("siglip2_vitb16_224_dual").classify("cat.png", ["a cat", "a dog"])[0].label
        'a cat'
        """
        how, taken = self.manifest.similarity, {each.name for each in self.variant.inputs}
        if how is None or not TOWERS.keys() <= taken:
            raise BadRequest(
                f"{self.manifest.model} compares no pictures with texts: load one of "
                '`zoo.list_models("*_dual")`.'
            )
        pixels = self.preprocess(picture)
        if len(pixels) != 1:
            raise BadRequest(f"got {len(pixels)} pictures to classify: give them one by one.")
        texts = self._encoded(in_sentences(labels, template))
        feeds = {"pixel_values": pixels, **texts}
        logits = self._described.run_network(["logits_per_image"], feeds)["logits_per_image"]
        if logits.shape != (1, len(labels)):
            raise BadFile(
                f"{self.path} gives logits_per_image {list(logits.shape)} for a picture and "
                f"{len(labels)} labels: pull or build the folder again."
            )
        return likeliest_first(logits[0], labels, how.probabilities)

    def _encoded(self, texts: Sequence[str]) -> dict[str, NDArray[Any]]:
        """What the file takes of texts, by name."""
        encoded, taken = self.tokenizer.encoded(texts), {each.name for each in self.variant.inputs}
        return {name: value for name, value in encoded.items() if name in taken}

    def _vectors(self, taken: str, feeds: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
        """What the tower that takes something makes of it, at length 1."""
        from zoo.tasks.answer import unit

        return unit(self._tower(taken).run_network(["pooler_output"], feeds)["pooler_output"])

    def _tower(self, taken: str) -> DescribedFile:
        """The file that takes nothing else; it is opened once."""
        inputs = {each.name for each in self.variant.inputs}
        if taken in inputs and not inputs & (TOWERS.keys() - {taken}):
            return self._described
        named = self.manifest.variants.items()
        own = next((name for name, variant in named if variant == self.variant), "")
        if taken not in self.towers:
            from zoo.artifacts.find import variant_in_folder

            tower = variant_in_folder(self.path.parent.parent, tower_variant(taken, own))
            self.towers[taken] = _described(tower, self.session.get_providers())
        return self.towers[taken]


def load(
    model: str | os.PathLike[str],
    variant: str = "fp32",
    folder: str | os.PathLike[str] | None = None,
    revision: str | None = None,
    offline: bool = False,
    providers: Sequence[str] | None = None,
) -> VisionModel:
    """A model that was built before, from a folder or else from the hub.

    **Arguments:**

    - `model`: a name or alias; or the path of an .onnx file with its manifest, or of a folder of
      `zoo build`.
    - `variant`: one of those that were built, such as `fp32`, `fused` or `int8`.
    - `folder`: what `zoo build` or `zoo pull` made. Without, the files are downloaded once, to
      `models` in the environment's `ZOO_CACHE_DIR` or `~/.cache/jax-onnx-zoo`.
    - `revision`: branch, tag or commit of the repository on the hub; the newest by default.
    - `offline`: use only what was downloaded before.
    - `providers`: names of ONNX Runtime's execution providers, the first of which has to start;
      the CPU by default.

    **Raises** a `ZooError` or `WeightsError`, which say what is missing.

    >>> zoo.load("dinov3_vits16")("cat.png")["pooler_output"].shape
    (1, 384)
    """
    from zoo.artifacts.find import find_folder, folder_of

    model = os.fspath(model) if isinstance(model, os.PathLike) else model
    if folder is None and isinstance(model, str) and model.endswith(".onnx"):
        return open_file(Path(model), providers)
    if folder is None:
        return open_folder(find_folder(model, variant, revision, offline), variant, providers)
    name = info(model).name
    if revision is not None:
        raise BadRequest(f"got folder {folder} and revision {revision!r}: give one of them.")
    return open_folder(folder_of(Path(folder), name), variant, providers)


def open_folder(place: Path, variant: str, providers: Sequence[str] | None = None) -> VisionModel:
    """The model that was built in a folder. **Raises** `BadFile` or `BadRequest`."""
    from zoo.artifacts.find import variant_in_folder

    return _opened(variant_in_folder(place, variant), providers)


def open_file(path: Path, providers: Sequence[str] | None = None) -> VisionModel:
    """The model in a file with a manifest beside it, or in the folder above. **Raises** `BadFile`
    or `BadRequest`."""
    from zoo.artifacts.find import variant_in_file

    return _opened(variant_in_file(path), providers)


def _opened(variant: FoundVariant, providers: Sequence[str] | None) -> VisionModel:
    session = _described(variant, providers).session
    return VisionModel(variant.manifest, variant.variant, variant.path, session)


def _described(variant: FoundVariant, providers: Sequence[str] | None) -> DescribedFile:
    """Open the file of a variant. **Raises** `BadFile` where it is not what its manifest says."""
    from zoo.artifacts.described_file import DescribedFile

    session = _session(variant.path, providers)
    return DescribedFile(variant.path, variant.manifest, variant.variant, session)


def _session(path: Path, providers: Sequence[str] | None) -> Session:
    from zoo.common.runtime import CPU, ERRORS, check_provider, check_started, open_session

    chosen = list(providers or (CPU,))
    for name in chosen:
        check_provider(name)
    try:
        live = open_session(path, chosen)
    except ERRORS as error:
        raise BadFile(
            f"{path} does not load with {', '.join(chosen)} ({first_line(error)}): choose other "
            "providers, or pull the file again."
        ) from error
    check_started(live, chosen[0])
    return live
