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

from zoo.architectures.inputs import IMAGE, Feeds, Kind, PictureInput, find_kinds
from zoo.artifacts.choices import tower_variant
from zoo.common.errors import BadFile, BadRequest, first_line
from zoo.common.html import html_table
from zoo.images.pictures import Pictures, pictures, reduced_picture, stack
from zoo.registry.lookup import info
from zoo.tasks.answer import TEMPLATE, Question, in_sentences

if TYPE_CHECKING:
    from PIL.Image import Image

    from zoo.architectures.architecture import Config
    from zoo.artifacts.described_file import DescribedFile
    from zoo.artifacts.find import FoundVariant
    from zoo.artifacts.schema import Manifest, Variant
    from zoo.common.runtime import Session
    from zoo.tasks.answer import Answer, Outputs, PictureAnswer
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

    def preprocess(self, images: Pictures) -> NDArray[Any]:
        """Make what the session takes: `pixel_values [n, 3, H, W]`, or `image [n, H, W, 3]` in
        uint8.

        **Arguments:** one picture or several. They are resized and cropped to the model's size,
        unless the file does that itself: then they must be equally large.

        **Raises** `BadRequest`, also for a network that takes several arrays of a picture: ask its
        `feeds`.
        """
        feeds = self.feeds(images)
        if len(feeds) != 1:
            raise BadRequest(
                f"{self.manifest.model} takes {' and '.join(feeds)} of a picture: ask for `feeds`, "
                "which gives all of them by name."
            )
        (values,) = feeds.values()
        return values

    def feeds(self, images: Pictures) -> Feeds:
        """Make all arrays that the session takes of pictures, by name. **Raises** as
        `preprocess`."""
        return self._feed(pictures(images))

    def _feed(self, images: Sequence[Image]) -> Feeds:
        from zoo.images.pixel_values import check_edges

        how = self.manifest.preprocessing.settings
        if self.manifest.input == "uint8":
            for image in images:
                check_edges((image.height, image.width), how)
            return {IMAGE.name: stack(images)}
        size = self.manifest.size
        if size is None:
            sizes = {how.fitted(image.height, image.width) for image in images}
            size = sizes.pop() if len(sizes) == 1 else how.size
        # Of a model of texts alone the pictures that these are compared with.
        taken = self._config.pictures or PictureInput(stride=1)
        return taken.make([*map(reduced_picture, images)], how, size)

    @cached_property
    def _config(self) -> Config:
        """Configuration of the network, of which the file may be a part."""
        from zoo.artifacts.read import stated_entry

        return stated_entry(self.manifest).config

    @property
    def _kinds(self) -> set[Kind]:
        """Kinds of things that the file takes."""
        return find_kinds(self._config.inputs, {each.name for each in self.session.get_inputs()})

    def __call__(self, images: Pictures) -> dict[str, NDArray[np.generic]]:
        """The model's outputs for these pictures, as `[n, ...]`, by name. **Raises** `BadRequest`
        for a file that takes texts."""
        if self._kinds != {"picture"}:
            taken = [each.name for each in self.session.get_inputs()]
            raise BadRequest(
                f"{self.manifest.model} takes {' and '.join(taken) or 'nothing'}, not pictures "
                "alone: of one that compares them with texts ask its `text`, `image` or `classify`."
            )
        return self._described.run(self._names, self.feeds(images))

    @property
    def _described(self) -> DescribedFile:
        from zoo.artifacts.described_file import DescribedFile

        return DescribedFile(self.path, self.manifest, self.variant, self.session)

    @property
    def _names(self) -> list[str]:
        return [output.name for output in self.session.get_outputs()]

    def ask(self, images: Pictures, question: Question) -> list[PictureAnswer]:
        """Answer a question about each picture. **Raises** `BadRequest` where the network cannot
        answer it, and as `tokenizer`."""
        from zoo.artifacts.ask import AskedNetwork, check_logits
        from zoo.artifacts.read import stated_entry

        def run(feeds: Feeds, names: Sequence[str]) -> Outputs:
            outputs = self._described.run_network(names or self._names, self._taken(feeds))
            check_logits(self.path, outputs, question)
            return outputs

        network = AskedNetwork(
            self.manifest.model,
            self._config,
            stated_entry(self.manifest).class_names,
            frozenset(self._kinds),
            self.manifest.preprocessing.settings,
            self.manifest.size,
            self._feed,
            self._feed_texts,
            run,
        )
        return network.answers(pictures(images), question)

    def answer(self, images: Pictures, threshold: float | None = None) -> list[PictureAnswer]:
        """Answer about each picture: classes, depths, its features, or things in boxes,
        of which it is surer than `threshold`."""
        return self.ask(images, Question(threshold=threshold))

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Tokenizer that makes `input_ids` of texts. **Raises** `BadRequest` for a model of
        pictures alone, `BadFile`, or `MissingLibrary` without the library tokenizers."""
        from zoo.texts.tokenizer import read_tokenizer

        texts = self._config.texts
        if texts is None or "text" not in self._kinds:
            raise BadRequest(f"{self.manifest.model} takes pictures alone: give it no texts.")
        return read_tokenizer(self.path.parent.parent, texts.tokens)

    def text(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of texts, `[n, dim]`, at length 1: a product with those of pictures is a cosine,
        of which the manifest's `similarity` makes a logit. **Raises** as `tokenizer`."""
        return self._vectors("text", self._feed_texts(texts))

    def _feed_texts(self, texts: Sequence[str]) -> Feeds:
        tokenizer, taken = self.tokenizer, self._config.texts
        assert taken is not None, "what has a tokenizer takes texts"
        return taken.make(tokenizer, texts)

    def image(self, images: Pictures) -> NDArray[np.float32]:
        """Vectors of pictures, `[n, dim]`, at length 1. **Raises** `BadRequest` for a model without
        texts that they could be compared with."""
        return self._vectors("picture", self.feeds(images))

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
        (image, *others) = pictures(picture)
        if others:
            raise BadRequest(f"got {1 + len(others)} pictures to classify: give them one by one.")
        in_sentences(labels, template)
        (answer,) = self.ask([image], Question(labels, template))
        return list(answer.answers)

    def _taken(self, feeds: Feeds) -> Feeds:
        """Those arrays that the file takes."""
        taken = {each.name for each in self.session.get_inputs()}
        return {name: value for name, value in feeds.items() if name in taken}

    def _vectors(self, kind: Kind, feeds: Feeds) -> NDArray[np.float32]:
        """What the tower that takes pictures, or texts, makes of them, at length 1."""
        from zoo.tasks.answer import unit

        return unit(self._tower(kind).run_network(["pooler_output"], feeds)["pooler_output"])

    def _tower(self, kind: Kind) -> DescribedFile:
        """The file that takes nothing else; it is opened once."""
        if self._kinds == {kind}:
            return self._described
        named = self.manifest.variants.items()
        own = next((name for name, variant in named if variant == self.variant), "")
        if kind not in self.towers:
            from zoo.artifacts.find import variant_in_folder

            tower = variant_in_folder(self.path.parent.parent, tower_variant(kind, own))
            self.towers[kind] = _described(tower, self.session.get_providers())
        return self.towers[kind]


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
