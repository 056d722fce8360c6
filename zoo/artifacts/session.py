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
from zoo.images.pictures import Pictures, pictures, stack_images, to_read_picture
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
    """A model in ONNX Runtime, with its preprocessing.

    Call it with pictures to get the outputs by name.

    - `manifest`: the manifest that describes the file.
    - `variant`: the part of the manifest about the file.
    - `path`: the ONNX file.
    - `session`: the session of ONNX Runtime that runs the file.
    - `towers`: the files with one tower each that were opened to compute vectors, by input kind.
    """

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
        """Return the array that the session takes for pictures.

        It is `pixel_values [n, 3, H, W]`, or `image [n, H, W, 3]` in uint8 if the file preprocesses
        pictures itself.

        **Arguments**

        - `images`: one picture or several. They are resized and cropped to the model's size. If the
          file does that itself, they must have equal sizes.

        **Raises** `BadRequest` if a picture cannot be read, and for a network that takes several
        arrays for a picture: use `feeds` for such a network.
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
        """Return all arrays that the session takes for pictures, by name.

        **Raises** `BadRequest` if a picture cannot be read. If the file preprocesses pictures
        itself, it is also raised for pictures of different sizes and for pictures that are too
        long.
        """
        return self._make_feeds(pictures(images))

    def _make_feeds(self, images: Sequence[Image]) -> Feeds:
        """Return the arrays that the session takes for upright RGB images, by name.

        If the manifest leaves the size open and the images need different sizes, they all get the
        model's own size.
        """
        from zoo.images.pixel_values import check_edges

        preprocessing = self.manifest.preprocessing.settings
        if self.manifest.input == "uint8":
            for image in images:
                check_edges((image.height, image.width), preprocessing)
            return {IMAGE.name: stack_images(images)}
        size = self.manifest.size
        if size is None:
            sizes = {preprocessing.input_size_for(image.height, image.width) for image in images}
            size = sizes.pop() if len(sizes) == 1 else preprocessing.size
        # A model of texts alone has no picture input: these pictures are compared with the texts.
        picture_input = self._config.pictures or PictureInput(stride=1)
        return picture_input.make([*map(to_read_picture, images)], preprocessing, size)

    @cached_property
    def _config(self) -> Config:
        """The configuration of the network. The file may hold only one of its towers."""
        from zoo.artifacts.read import entry_of_manifest

        return entry_of_manifest(self.manifest).config

    @property
    def _input_kinds(self) -> set[Kind]:
        """The kinds of inputs that the file takes: pictures, texts or both."""
        return find_kinds(
            self._config.inputs, {session_input.name for session_input in self.session.get_inputs()}
        )

    def __call__(self, images: Pictures) -> dict[str, NDArray[np.generic]]:
        """Return all outputs of the file, `[n, ...]`, for pictures, by name.

        **Raises** `BadRequest` for a file that takes texts, also with pictures, and the errors of
        `feeds`. Raises `BadFile` if ONNX Runtime cannot run the file.
        """
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
        """The file of this model with its session, compared with its manifest."""
        from zoo.artifacts.described_file import DescribedFile

        return DescribedFile(self.path, self.manifest, self.variant, self.session)

    @property
    def _output_names(self) -> list[str]:
        """The names of the outputs that the file declares."""
        return [output.name for output in self.session.get_outputs()]

    def ask(self, images: Pictures, question: Question) -> list[PictureAnswer]:
        """Return the answer to a question about each picture, in the order of the pictures.

        The file runs on one picture at a time.

        **Raises** `BadRequest` if the network cannot answer the question, `BadFile` if the outputs
        are not those of the network, and the errors of `tokenizer` for a question with labels.
        """
        from zoo.artifacts.answering_network import AnsweringNetwork, check_logits
        from zoo.artifacts.read import entry_of_manifest

        def run(feeds: Feeds, names: Sequence[str]) -> Outputs:
            """Return the outputs of these names, or all outputs if no names are given."""
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
        """Return the answer about each picture: classes, areas, depths, features or boxes.

        The task of the model decides which of them. `threshold` is the score that a box must
        exceed, from 0 to 1. None means the default.

        **Raises** `BadRequest` for a file that takes texts, also with pictures.
        """
        return self.ask(images, Question(threshold=threshold))

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that turns texts into `input_ids`.

        **Raises** `BadRequest` for a model that takes pictures only, `BadFile` if the tokenizer
        cannot be used, and `MissingLibrary` if the library tokenizers is not installed.
        """
        from zoo.texts.tokenizer import read_tokenizer

        texts = self._config.texts
        if texts is None or "text" not in self._input_kinds:
            raise BadRequest(f"{self.manifest.model} takes pictures alone: give it no texts.")
        return read_tokenizer(self.path.parent.parent, texts.tokens)

    def text(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts, `[n, dim]`, of length 1.

        The product of such a vector with the vector of a picture is a cosine. The manifest's
        `similarity` turns the cosine into a logit.

        **Raises** the errors of `tokenizer`. For a file with both towers, also `BadRequest` if its
        folder has no variant with the tower for texts.
        """
        return self._unit_vectors("text", self._feed_texts(texts))

    def _feed_texts(self, texts: Sequence[str]) -> Feeds:
        """Return the arrays that the session takes for texts, by name."""
        tokenizer, text_input = self.tokenizer, self._config.texts
        assert text_input is not None, "a model with a tokenizer takes texts"
        return text_input.make(tokenizer, texts)

    def image(self, images: Pictures) -> NDArray[np.float32]:
        """Return the vectors of pictures, `[n, dim]`, of length 1, to compare with those of `text`.

        They are the output `pooler_output` of this file if it takes pictures alone, and otherwise
        of the folder's variant with the tower for pictures.

        **Raises** `BadRequest` if the file is a tower for texts, or if it takes both and its folder
        has no variant with the tower for pictures.
        """
        return self._unit_vectors("picture", self.feeds(images))

    def classify(
        self, picture: Pictures, labels: Sequence[str], template: str = TEMPLATE
    ) -> list[Answer]:
        """Return the probability of each label for one picture, the most probable label first.

        The manifest's `similarity` says whether the labels exclude each other. For SigLIP 2 they do
        not. For the other models all probabilities sum to 1.

        **Arguments**

        - `picture`: one picture.
        - `labels`: words for what the picture may show.
        - `template`: the sentence that is compared with the picture, with `{}` in place of the
          label.

        **Raises** `BadRequest` for a file that does not compare pictures with texts, for several
        pictures, if `labels` are no list of strings, and for a template without `{}`.

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
        """Return the arrays whose names are inputs of the file, without the other arrays."""
        input_names = {session_input.name for session_input in self.session.get_inputs()}
        return {name: value for name, value in feeds.items() if name in input_names}

    def _unit_vectors(self, kind: Kind, feeds: Feeds) -> NDArray[np.float32]:
        """Run one tower and return its vectors, `[n, dim]`, of length 1.

        `kind` is the kind of the tower's input. `feeds` are its input arrays by name.
        """
        from zoo.tasks.answer import normalize_vectors

        return normalize_vectors(
            self._tower_file(kind).run_network(["pooler_output"], feeds)["pooler_output"]
        )

    def _tower_file(self, kind: Kind) -> DescribedFile:
        """Return the file that holds only the tower for this kind of input.

        This is the file itself, or another variant of the folder, which is opened on first use and
        kept in `towers`.

        **Raises** the errors of `find_variant_in_folder`.
        """
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
    - `variant`: a variant that was built, such as `fp32`, `fused` or `int8`. It is ignored for an
      .onnx file.
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
    """Open a variant of the model in a built folder.

    `providers` are names of ONNX Runtime's execution providers. None means the CPU.

    **Raises** `BadFile` or `BadRequest`.
    """
    from zoo.artifacts.find import find_variant_in_folder

    return _open_variant(find_variant_in_folder(folder, variant), providers)


def open_file(path: Path, providers: Sequence[str] | None = None) -> VisionModel:
    """Open the model in an ONNX file, whose manifest is next to it or in the folder above.

    `providers` are names of ONNX Runtime's execution providers. None means the CPU.

    **Raises** `BadFile` or `BadRequest`.
    """
    from zoo.artifacts.find import find_variant_in_file

    return _open_variant(find_variant_in_file(path), providers)


def _open_variant(variant: FoundVariant, providers: Sequence[str] | None) -> VisionModel:
    """Open a variant with these execution providers, by default on the CPU."""
    session = _described_file(variant, providers).session
    return VisionModel(variant.manifest, variant.variant, variant.path, session)


def _described_file(variant: FoundVariant, providers: Sequence[str] | None) -> DescribedFile:
    """Open the ONNX file of a variant and compare it with its manifest.

    **Raises** `BadFile` if it differs.
    """
    from zoo.artifacts.described_file import DescribedFile

    session = _open_session(variant.path, providers)
    return DescribedFile(variant.path, variant.manifest, variant.variant, session)


def _open_session(path: Path, providers: Sequence[str] | None) -> Session:
    """Open an ONNX file with these execution providers, by default on the CPU.

    **Raises** `BadFile` if the file does not load, and `BadRequest` if a provider is not installed
    or the first one does not start.
    """
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
