"""A network that takes three arrays of one picture, as SigLIP 2's NaFlex does: patches of any
aspect ratio, which of them are no padding, and how many rows and columns there are.

It is defined here alone: everything else asks its records.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jaxtyping import Array, Float, Int, PRNGKeyArray
from PIL import Image

import zoo
from zoo.apps.embed.network import Runner, find_network, lane_session
from zoo.architectures import kinds
from zoo.architectures.architecture import Architecture
from zoo.architectures.base import NO_IDENTITY, Identity, Network
from zoo.architectures.entry import Licence, ModelInfo, Publisher
from zoo.architectures.inputs import Feeds, InputArray, PictureInput, Size
from zoo.architectures.parts.output import Output
from zoo.architectures.vit.vit_config import ViTConfig
from zoo.artifacts.read import read_manifest
from zoo.common.errors import BadRequest
from zoo.common.golden_file import Golden, read_golden, write_golden
from zoo.export.assemble.extras import describe_picture_arrays
from zoo.export.describe import describe_sizes
from zoo.export.request import Signature
from zoo.images.photograph import photograph
from zoo.images.pictures import reduced_picture
from zoo.images.preprocessing import Preprocessing
from zoo.registry import lookup
from zoo.tasks.answer import PictureAnswer as Answered
from zoo.tasks.answer import best_answers, softmax
from zoo.tasks.task import OutputDescription, Task

NAME, PATCH, CLASSES = "toy_naflex", 4, 5
NATIVE = (16, 24)
TOKENS = NATIVE[0] * NATIVE[1] // PATCH**2

PICTURES = {
    "wide": photograph().resize((60, 20)),
    "tall": photograph().resize((16, 48)),
    "square": photograph().resize((32, 32)),
}


@dataclass(frozen=True)
class PatchesInput(PictureInput):
    """Patches `[tokens, 48]`, a mask `[tokens]`, and rows and columns `[2]`."""

    @property
    def arrays(self) -> tuple[InputArray, ...]:
        channels = 3 * self.stride**2
        return (
            InputArray("pixel_values", "float32", ("tokens", channels)),
            InputArray("pixel_attention_mask", "int32", ("tokens",)),
            InputArray("spatial_shapes", "int64", (2,)),
        )

    @property
    def open_sides(self) -> Mapping[str, str]:
        return {"tokens": "tokens"}

    def sides(self, size: Size) -> Mapping[str, int]:
        return {"tokens": size[0] * size[1] // self.stride**2}

    def describe_sizes(self, size: Size | None) -> str:
        return "any aspect ratio"

    def resized(self, sides: Size, how: Preprocessing, size: Size) -> Size:
        """The largest multiple of a patch of the same aspect ratio, of so many tokens at most."""
        most, (height, width) = self.sides(size)["tokens"], sides
        for scale in np.geomspace(4, 1e-3, 400):
            rows, columns = (max(1, round(scale * s / self.stride)) for s in (height, width))
            if rows * columns <= most:
                return rows * self.stride, columns * self.stride
        raise AssertionError

    def make(self, pictures, how: Preprocessing, size: Size) -> Feeds:
        patch, most, rows = self.stride, self.sides(size)["tokens"], []
        for each in pictures:
            height, width = self.resized(each.sides, how, size)
            image = each.image.resize((width, height), Image.Resampling.BILINEAR, each.part)
            values = (np.asarray(image, np.float32) / 255 - 0.5) / 0.5
            grid = values.reshape(height // patch, patch, width // patch, patch, 3)
            tokens = grid.transpose(0, 2, 1, 3, 4).reshape(-1, 3 * patch**2)
            padding = most - len(tokens)
            mask = np.pad(np.ones(len(tokens), np.int32), (0, padding))
            shape = np.array([height // patch, width // patch], np.int64)
            rows.append((np.pad(tokens, ((0, padding), (0, 0))), mask, shape))
        stacked = (np.stack(arrays) for arrays in zip(*rows, strict=True))
        return dict(zip(self.names, stacked, strict=True))


@dataclass(frozen=True)
class ToyConfig(ViTConfig):
    """A mean of tokens, each of which knows its row and column, and a classifier."""

    dim: int = 8
    depth: int = 1
    heads: int = 2
    hidden: int = 8
    patch_size: int = PATCH
    classes: int = CLASSES

    native: ClassVar[Size] = NATIVE

    @property
    def pictures(self) -> PictureInput:
        return PatchesInput(self.stride)

    @property
    def task(self) -> Task:
        outputs = {
            "last_hidden_state": OutputDescription(f"[batch_size, tokens, {self.dim}]", "patches"),
            "pooler_output": OutputDescription(f"[batch_size, {self.dim}]", "{pooler}"),
            "logits": OutputDescription(f"[batch_size, {self.classes}]", "classes"),
        }

        def answer(found, picture, question):
            return Answered("classes", best_answers(softmax(found["logits"]), picture.names))

        return Task(name="toy", purpose="A toy of {classes:,}.", outputs=outputs, answer=answer)


class Toy(Network):
    embed: eqx.nn.Linear
    head: eqx.nn.Linear

    def __init__(self, config: ToyConfig, *, identity: Identity = NO_IDENTITY, key: PRNGKeyArray):
        key1, key2 = jr.split(key)
        self.embed = eqx.nn.Linear(3 * PATCH**2, config.dim, key=key1)
        self.head = eqx.nn.Linear(config.dim, config.classes, key=key2)
        self.identity = identity

    def __call__(
        self,
        pixel_values: Float[Array, "tokens values"],
        pixel_attention_mask: Int[Array, " tokens"],
        spatial_shapes: Int[Array, " 2"],
    ) -> Output:
        x = jax.vmap(self.embed)(pixel_values)
        index = jnp.arange(x.shape[0])
        columns = jnp.maximum(spatial_shapes[1], 1)
        rows = jnp.maximum(spatial_shapes[0], 1)
        place = (index // columns) / rows + 2 * (index % columns) / columns
        x = jnp.tanh(x + place[:, None])
        words = (pixel_attention_mask != 0).astype(x.dtype)[:, None]
        pooled = (x * words).sum(0) / jnp.maximum(words.sum(), 1)
        return Output(x * words, pooled, self.head(pooled))


ENTRY = ModelInfo(
    name=NAME,
    family=NAME,
    config=ToyConfig(),
    published=(),
    preprocessing=Preprocessing((0.5,) * 3, (0.5,) * 3, size=NATIVE),
    publisher=Publisher(source="this test", licence=Licence("of a test", "", "", "")),
    parameters=437,
    pooler="the mean",
    labels=tuple("abcde"),
)


@pytest.fixture
def model(monkeypatch):
    """The network, known to the registry as any other."""
    kind = Architecture(
        config=ToyConfig, network=lambda: Toy, read_sizes=lambda config, shapes: config
    )
    monkeypatch.setitem(kinds._BY_CONFIG, ToyConfig, kind)
    monkeypatch.setitem(lookup.MODELS, NAME, ENTRY)
    monkeypatch.setitem(lookup._BY_NAME, NAME, ENTRY)
    return zoo.create(NAME, key=jax.random.key(0))


def in_jax(model, image: Image.Image, size: Size = NATIVE) -> Output:
    feeds = PatchesInput(PATCH).make([reduced_picture(image)], ENTRY.preprocessing, size)
    return jax.vmap(model)(*map(jnp.asarray, feeds.values()))


@pytest.mark.parametrize("opset", [18, pytest.param(23, marks=pytest.mark.full)])
def test_a_file_of_open_size(model, tmp_path, opset):
    """Verified at several numbers of tokens; a session answers for three aspect ratios."""
    file = tmp_path / "toy.onnx"
    manifest = zoo.to_onnx(model, file, opset=opset, size="dynamic")
    taken = {each.name: (each.dtype, each.shape) for each in manifest.only_variant.inputs}
    assert taken["pixel_values"][1][::2] == ("batch_size", 3 * PATCH**2)
    assert taken["pixel_attention_mask"][0] == "int32"
    assert taken["spatial_shapes"] == ("int64", ("batch_size", 2))
    compared = manifest.only_variant.verification.comparisons
    assert manifest.only_variant.passed and len({each.tokens for each in compared}) > 2
    assert manifest.sizes == "any aspect ratio" and manifest.network is None
    live = zoo.load(file)
    for image in PICTURES.values():
        wanted = in_jax(model, image)
        (answer,) = live.answer(image)
        order = np.argsort(-np.asarray(wanted.logits[0]))
        assert [each.label for each in answer.answers] == ["abcde"[number] for number in order]
        pooled = live(image)["pooler_output"]
        np.testing.assert_allclose(pooled, wanted.pooler_output, atol=1e-5)
    feeds = live.feeds([*PICTURES.values()])
    assert {name: array.shape for name, array in feeds.items()} == {
        "pixel_values": (3, TOKENS, 3 * PATCH**2),
        "pixel_attention_mask": (3, TOKENS),
        "spatial_shapes": (3, 2),
    }
    assert len({tuple(row) for row in feeds["spatial_shapes"].tolist()}) == 3
    assert 0 in feeds["pixel_attention_mask"]
    with pytest.raises(BadRequest, match="ask for `feeds`"):
        live.preprocess(photograph())


@pytest.mark.full
def test_a_file_of_one_size(model, tmp_path, zoo):
    """The size says how many tokens there are; the command answers and measures."""
    import zoo as package

    file = tmp_path / "toy.onnx"
    manifest = package.to_onnx(model, file, size=(16, 16), batch=1, precision="int8")
    assert [each.shape for each in manifest.only_variant.inputs] == [(1, 16, 48), (1, 16), (1, 2)]
    photograph().save(tmp_path / "cat.png")
    (told,) = zoo.json("run", file, tmp_path / "cat.png")
    assert {each["label"] for each in told["answers"]} == {*"abcde"}
    timed = zoo.json("bench", file, "--rounds", 1)
    assert [each["shape"] for each in timed["files"][0]["inputs"]] == [[1, 16, 48], [1, 16], [1, 2]]


def test_vectors_and_arrays_of_pictures(model, tmp_path):
    file = tmp_path / "toy.onnx"
    zoo.to_onnx(model, file, size="dynamic")
    network = find_network(str(file), "fp32")
    reads = [*map(reduced_picture, PICTURES.values())]
    runner = Runner(network, lane_session(network.path), 1)
    outputs = runner.run([network.make_feeds(read) for read in reads], ["pooler_output"])
    for row, image in zip(outputs["pooler_output"], PICTURES.values(), strict=True):
        np.testing.assert_allclose(row, in_jax(model, image).pooler_output[0], atol=1e-5)
    arrays = zoo.preprocess(model, [*PICTURES.values()])
    assert [each.shape for each in arrays] == [(3, TOKENS, 48), (3, TOKENS), (3, 2)]
    assert read_manifest(file.with_suffix(".manifest.json")).model == NAME


def test_words_and_golden_files(model, tmp_path):
    assert describe_picture_arrays(ENTRY.config) == (
        "`pixel_values`: float32 `[batch_size, tokens, 48]`; `pixel_attention_mask`: int32 "
        "`[batch_size, tokens]`; `spatial_shapes`: int64 `[batch_size, 2]`."
    )
    assert describe_sizes(ENTRY, Signature(None, None)) == "any aspect ratio"
    with pytest.raises(BadRequest, match="which no file makes of images itself"):
        zoo.to_onnx(model, tmp_path / "toy.onnx", input="uint8")
    fed = PatchesInput(PATCH).sample(2, ENTRY.preprocessing, NATIVE)
    outputs = {"pooler_output": np.ones((2, 8), np.float32)}
    write_golden(tmp_path / "golden.safetensors", Golden(NAME, "this test", "", fed, outputs))
    read = read_golden(tmp_path / "golden.safetensors")
    assert [*read.feeds] == [*fed] and [*read.outputs] == ["pooler_output"]
    for name, array in fed.items():
        np.testing.assert_array_equal(read.feeds[name], array)
