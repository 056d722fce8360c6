"""Load a built model to run it in ONNX Runtime (`zoo.load`). JAX is not needed for that."""

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
from zoo.images.pictures import Pictures, pictures, reduced_picture, stack_images
from zoo.registry.lookup import info
from zoo.tasks.answer import TEMPLATE, Question, make_sentences

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
    """A model with its preprocessing, in ONNX Runtime. Call it with pictures to get its outputs by
    name."""

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
        """Return the array that the session takes: `pixel_values [n, 3, H, W]`, or `image [n, H, W,
        3]` in uint8.

        **Arguments:** one picture or several. They are resized and cropped to the model's size. If
        the file does that itself, they must have equal sizes.

        **Raises** `BadRequest`, also for a network that takes several arrays of a picture: use
        `feeds` for it.
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
        """Return all arrays by name that the session takes of pictures. **Raises** the errors of
        `preprocess`."""
        return self._make_feeds(pictures(images))

    def _make_feeds(self, images: Sequence[Image]) -> Feeds:
        """Return the arrays of RGB images by name."""
        from zoo.images.pixel_values import check_edges

        preprocessing = self.manifest.preprocessing.settings
        if self.manifest.input == "uint8":
            for image in images:
                check_edges((image.height, image.width), preprocessing)
            return {IMAGE.name: stack_images(images)}
        size = self.manifest.size
        if size is None:
            sizes = {preprocessing.fitted(image.height, image.width) for image in images}
            size = sizes.pop() if len(sizes) == 1 else preprocessing.size
        # A model of texts alone has no picture input: these pictures are compared with the texts.
        picture_input = self._config.pictures or PictureInput(stride=1)
        return picture_input.make([*map(reduced_picture, images)], preprocessing, size)

    @cached_property
    def _config(self) -> Config:
        """Configuration of the network, of which the file may be one tower."""
        from zoo.artifacts.read import entry_of_manifest

        return entry_of_manifest(self.manifest).config

    @property
    def _input_kinds(self) -> set[Kind]:
        """Kinds of inputs that the file takes."""
        return find_kinds(
            self._config.inputs, {session_input.name for session_input in self.session.get_inputs()}
        )

    def __call__(self, images: Pictures) -> dict[str, NDArray[np.generic]]:
        """Return the model's outputs for pictures, as `[n, ...]`, by name. **Raises** `BadRequest`
        for a file that takes texts."""
        if self._input_kinds != {"picture"}:
            input_names = [session_input.name for session_input in self.session.get_inputs()]
            raise BadRequest(
                f"{self.manifest.model} takes {' and '.join(input_names) or 'nothing'}, not "
                "pictures alone: for a model that compares them with texts, use `text`, `image` or "
                "`classify`."
            )
        return self._described_file.run(self._output_names, self.feeds(images))

    @property
    def _described_file(self) -> DescribedFile:
        from zoo.artifacts.described_file import DescribedFile

        return DescribedFile(self.path, self.manifest, self.variant, self.session)

    @property
    def _output_names(self) -> list[str]:
        return [output.name for output in self.session.get_outputs()]

    def ask(self, images: Pictures, question: Question) -> list[PictureAnswer]:
        """Return the answer to a question about each picture. **Raises** `BadRequest` if the
        network cannot answer it, and the errors of `tokenizer`."""
        from zoo.artifacts.ask import AnsweringNetwork, check_logits
        from zoo.artifacts.read import entry_of_manifest

        def run(feeds: Feeds, names: Sequence[str]) -> Outputs:
            outputs = self._described_file.run_network(
                names or self._output_names, self._select_inputs(feeds)
            )
            check_logits(self.path, outputs, question)
            return outputs

        network = AnsweringNetwork(
            self.manifest.model,
            self._config,
            entry_of_manifest(self.manifest).class_names,
            frozenset(self._input_kinds),
            self.manifest.preprocessing.settings,
            self.manifest.size,
            self._make_feeds,
            self._feed_texts,
            run,
        )
        return network.answers(pictures(images), question)

    def answer(self, images: Pictures, threshold: float | None = None) -> list[PictureAnswer]:
        """Return the answer about each picture: classes, depths, features or objects in boxes.
        Objects whose score is below `threshold` are left out."""
        return self.ask(images, Question(threshold=threshold))

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Tokenizer that makes `input_ids` of texts. **Raises** `BadRequest` for a model of
        pictures alone, `BadFile` if the tokenizer cannot be used, and `MissingLibrary` without the
        library tokenizers."""
        from zoo.texts.tokenizer import read_tokenizer

        texts = self._config.texts
        if texts is None or "text" not in self._input_kinds:
            raise BadRequest(f"{self.manifest.model} takes pictures alone: give it no texts.")
        return read_tokenizer(self.path.parent.parent, texts.tokens)

    def text(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts, `[n, dim]`, of length 1. Their product with vectors of
        pictures is a cosine, and the manifest's `similarity` turns the cosine into a logit.
        **Raises** the errors of `tokenizer`."""
        return self._unit_vectors("text", self._feed_texts(texts))

    def _feed_texts(self, texts: Sequence[str]) -> Feeds:
        """Return the arrays of texts by name."""
        tokenizer, text_input = self.tokenizer, self._config.texts
        assert text_input is not None, "a model with a tokenizer takes texts"
        return text_input.make(tokenizer, texts)

    def image(self, images: Pictures) -> NDArray[np.float32]:
        """Return the vectors of pictures, `[n, dim]`, of length 1. **Raises** `BadRequest` for a
        model without texts that they could be compared with."""
        return self._unit_vectors("picture", self.feeds(images))

    def classify(
        self, picture: Pictures, labels: Sequence[str], template: str = TEMPLATE
    ) -> list[Answer]:
        """Return the probability of each label for a picture, the most probable first. The
        manifest's `similarity` says whether the labels exclude each other: for SigLIP 2 they do
        not, for the other models all probabilities sum to 1.

        **Arguments:** one picture; the labels, in words; and the sentence that the labels are put
        into, with `{}` in their place.

        **Raises** `BadRequest` for a model that does not compare pictures with texts.

        >>> zoo.load("siglip2_vitb16_224_dual").classify("cat.png", ["a cat", "a dog"])[0].label
        'a cat'
        """
        (image, *more_pictures) = pictures(picture)
        if more_pictures:
            raise BadRequest(
                f"got {1 + len(more_pictures)} pictures to classify: give them one by one."
            )
        make_sentences(labels, template)
        (answer,) = self.ask([image], Question(labels, template))
        return list(answer.answers)

    def _select_inputs(self, feeds: Feeds) -> Feeds:
        """Return the arrays that the file takes."""
        input_names = {session_input.name for session_input in self.session.get_inputs()}
        return {name: value for name, value in feeds.items() if name in input_names}

    def _unit_vectors(self, kind: Kind, feeds: Feeds) -> NDArray[np.float32]:
        """Return the vectors of one tower, of length 1. `kind` is the kind of its input."""
        from zoo.tasks.answer import normalize_vectors

        return normalize_vectors(
            self._tower_file(kind).run_network(["pooler_output"], feeds)["pooler_output"]
        )

    def _tower_file(self, kind: Kind) -> DescribedFile:
        """Return the file of the tower that takes this kind of input. It is opened once."""
        if self._input_kinds == {kind}:
            return self._described_file
        variants = self.manifest.variants.items()
        variant_name = next((name for name, variant in variants if variant == self.variant), "")
        if kind not in self.towers:
            from zoo.artifacts.find import find_variant_in_folder

            tower = find_variant_in_folder(
                self.path.parent.parent, tower_variant(kind, variant_name)
            )
            self.towers[kind] = _described_file(tower, self.session.get_providers())
        return self.towers[kind]


def load(
    model: str | os.PathLike[str],
    variant: str = "fp32",
    folder: str | os.PathLike[str] | None = None,
    revision: str | None = None,
    offline: bool = False,
    providers: Sequence[str] | None = None,
) -> VisionModel:
    """Return a built model from a folder, or from the hub if no folder is given.

    **Arguments:**

    - `model`: a name or alias; or the path of an .onnx file with its manifest, or of a folder of
      `zoo build`.
    - `variant`: a variant that was built, such as `fp32`, `fused` or `int8`.
    - `folder`: a folder that `zoo build` or `zoo pull` wrote. By default the files are downloaded
      once, to `models` in `ZOO_CACHE_DIR` (environment variable) or `~/.cache/jax-onnx-zoo`.
    - `revision`: branch, tag or commit of the repository on the hub; the newest by default.
    - `offline`: use only files that were downloaded before.
    - `providers`: names of ONNX Runtime's execution providers, the first of which has to start; the
      CPU by default.

    **Raises** a `ZooError` or `WeightsError` that says what is missing.

    >>> zoo.load("dinov3_vits16")("cat.png")["pooler_output"].shape
    (1, 384)
    """
    from zoo.artifacts.find import check_folder_model, find_or_pull_folder

    model = os.fspath(model) if isinstance(model, os.PathLike) else model
    if folder is None and isinstance(model, str) and model.endswith(".onnx"):
        return open_file(Path(model), providers)
    if folder is None:
        return open_folder(
            find_or_pull_folder(model, variant, revision, offline), variant, providers
        )
    name = info(model).name
    if revision is not None:
        raise BadRequest(f"got folder {folder} and revision {revision!r}: give one of them.")
    return open_folder(check_folder_model(Path(folder), name), variant, providers)


def open_folder(folder: Path, variant: str, providers: Sequence[str] | None = None) -> VisionModel:
    """Return the model that was built in a folder. **Raises** `BadFile` or `BadRequest`."""
    from zoo.artifacts.find import find_variant_in_folder

    return _open_variant(find_variant_in_folder(folder, variant), providers)


def open_file(path: Path, providers: Sequence[str] | None = None) -> VisionModel:
    """Return the model in an ONNX file whose manifest is next to it or in the folder above.
    **Raises** `BadFile` or `BadRequest`."""
    from zoo.artifacts.find import find_variant_in_file

    return _open_variant(find_variant_in_file(path), providers)


def _open_variant(variant: FoundVariant, providers: Sequence[str] | None) -> VisionModel:
    """Return a variant as a model."""
    session = _described_file(variant, providers).session
    return VisionModel(variant.manifest, variant.variant, variant.path, session)


def _described_file(variant: FoundVariant, providers: Sequence[str] | None) -> DescribedFile:
    """Open the file of a variant. **Raises** `BadFile` if it is not what its manifest says."""
    from zoo.artifacts.described_file import DescribedFile

    session = _open_session(variant.path, providers)
    return DescribedFile(variant.path, variant.manifest, variant.variant, session)


def _open_session(path: Path, providers: Sequence[str] | None) -> Session:
    """Return a session of ONNX Runtime. **Raises** `BadFile` if the file does not load with these
    providers, and `BadRequest` if one is not available."""
    from zoo.common.runtime import CPU, ERRORS, check_provider, check_started, open_session

    provider_names = list(providers or (CPU,))
    for name in provider_names:
        check_provider(name)
    try:
        session = open_session(path, provider_names)
    except ERRORS as error:
        raise BadFile(
            f"{path} does not load with {', '.join(provider_names)} ({first_line(error)}): choose "
            "other providers, or pull the file again."
        ) from error
    check_started(session, provider_names[0])
    return session
