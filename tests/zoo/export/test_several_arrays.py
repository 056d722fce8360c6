"""A network with three input arrays for one picture, as SigLIP 2's NaFlex has: patches of any
aspect ratio, a mask of padding, and the numbers of rows and columns.

The network is defined in this file only. Export, applications and golden files read its records.
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
from zoo.images.pictures import to_read_picture
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
    """Patches `[tokens, 48]`, a mask `[tokens]`, and the numbers of rows and columns `[2]`."""

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

    def fixed_sides(self, size: Size) -> Mapping[str, int]:
        return {"tokens": size[0] * size[1] // self.stride**2}

    def describe_sizes(self, size: Size | None) -> str:
        return "any aspect ratio"

    def resized(self, sides: Size, how: Preprocessing, size: Size) -> Size:
        """Return the largest multiple of a patch with about this aspect ratio.

        It has at most as many tokens as `size`.
        """
        max_tokens, (height, width) = self.fixed_sides(size)["tokens"], sides
        for scale in np.geomspace(4, 1e-3, 400):
            rows, columns = (max(1, round(scale * s / self.stride)) for s in (height, width))
            if rows * columns <= max_tokens:
                return rows * self.stride, columns * self.stride
        raise AssertionError

    def make(self, pictures, how: Preprocessing, size: Size) -> Feeds:
        patch, most, rows = self.stride, self.fixed_sides(size)["tokens"], []
        for picture in pictures:
            height, width = self.resized(picture.original_size, how, size)
            image = picture.image.resize((width, height), Image.Resampling.BILINEAR, picture.part)
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
    """The configuration of a mean of tokens with positions, and a classifier."""

    dim: int = 8
    depth: int = 1
    heads: int = 2
    hidden: int = 8
    patch_size: int = PATCH
    classes: int = CLASSES

    native_size: ClassVar[Size] = NATIVE

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
    """The mean of the tokens, and a classifier."""

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
        positions = (index // columns) / rows + 2 * (index % columns) / columns
        x = jnp.tanh(x + positions[:, None])
        is_patch = (pixel_attention_mask != 0).astype(x.dtype)[:, None]
        pooled = (x * is_patch).sum(0) / jnp.maximum(is_patch.sum(), 1)
        return Output(x * is_patch, pooled, self.head(pooled))


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
    """The network, registered as the networks of the zoo are."""
    kind = Architecture(
        config=ToyConfig, network=lambda: Toy, read_sizes=lambda config, shapes: config
    )
    monkeypatch.setitem(kinds._BY_CONFIG, ToyConfig, kind)
    monkeypatch.setitem(lookup.MODELS, NAME, ENTRY)
    monkeypatch.setitem(lookup._BY_NAME, NAME, ENTRY)
    return zoo.create(NAME, key=jax.random.key(0))


def run_in_jax(model, image: Image.Image, size: Size = NATIVE) -> Output:
    """Return the outputs for one picture in JAX."""
    feeds = PatchesInput(PATCH).make([to_read_picture(image)], ENTRY.preprocessing, size)
    return jax.vmap(model)(*map(jnp.asarray, feeds.values()))


@pytest.mark.parametrize("opset", [18, pytest.param(23, marks=pytest.mark.full)])
def test_a_file_of_open_size(model, tmp_path, opset):
    """The file is verified at several numbers of tokens, and agrees with JAX for three aspect
    ratios."""
    file = tmp_path / "toy.onnx"
    manifest = zoo.to_onnx(model, file, opset=opset, size="dynamic")
    inputs = {array.name: (array.dtype, array.shape) for array in manifest.only_variant.inputs}
    assert inputs["pixel_values"][1][::2] == ("batch_size", 3 * PATCH**2)
    assert inputs["pixel_attention_mask"][0] == "int32"
    assert inputs["spatial_shapes"] == ("int64", ("batch_size", 2))
    comparisons = manifest.only_variant.verification.comparisons
    assert manifest.only_variant.passed and len({row.tokens for row in comparisons}) > 2
    assert manifest.sizes == "any aspect ratio" and manifest.network is None
    model_file = zoo.load(file)
    for image in PICTURES.values():
        expected = run_in_jax(model, image)
        (answer,) = model_file.answer(image)
        order = np.argsort(-np.asarray(expected.logits[0]))
        assert [choice.label for choice in answer.answers] == ["abcde"[number] for number in order]
        pooled = model_file(image)["pooler_output"]
        np.testing.assert_allclose(pooled, expected.pooler_output, atol=1e-5)
    feeds = model_file.feeds([*PICTURES.values()])
    assert {name: array.shape for name, array in feeds.items()} == {
        "pixel_values": (3, TOKENS, 3 * PATCH**2),
        "pixel_attention_mask": (3, TOKENS),
        "spatial_shapes": (3, 2),
    }
    assert len({tuple(row) for row in feeds["spatial_shapes"].tolist()}) == 3
    assert 0 in feeds["pixel_attention_mask"]
    with pytest.raises(BadRequest, match="ask for `feeds`"):
        model_file.preprocess(photograph())


@pytest.mark.full
def test_a_file_of_one_size(model, tmp_path, zoo):
    """The size determines the number of tokens. `zoo run` and `zoo bench` take the file."""
    import zoo as package

    file = tmp_path / "toy.onnx"
    manifest = package.to_onnx(model, file, size=(16, 16), batch=1, precision="int8")
    assert [array.shape for array in manifest.only_variant.inputs] == [(1, 16, 48), (1, 16), (1, 2)]
    photograph().save(tmp_path / "cat.png")
    (record,) = zoo.json("run", file, tmp_path / "cat.png")
    assert {answer["label"] for answer in record["answers"]} == {*"abcde"}
    benchmark = zoo.json("bench", file, "--rounds", 1)
    assert [array["shape"] for array in benchmark["files"][0]["inputs"]] == [
        [1, 16, 48],
        [1, 16],
        [1, 2],
    ]


def test_vectors_and_arrays_of_pictures(model, tmp_path):
    file = tmp_path / "toy.onnx"
    zoo.to_onnx(model, file, size="dynamic")
    network = find_network(str(file), "fp32")
    reduced_pictures = [*map(to_read_picture, PICTURES.values())]
    runner = Runner(network, lane_session(network.path), 1)
    outputs = runner.run([network.make_feeds(read) for read in reduced_pictures], ["pooler_output"])
    for row, image in zip(outputs["pooler_output"], PICTURES.values(), strict=True):
        np.testing.assert_allclose(row, run_in_jax(model, image).pooler_output[0], atol=1e-5)
    arrays = zoo.preprocess(model, [*PICTURES.values()])
    assert [array.shape for array in arrays] == [(3, TOKENS, 48), (3, TOKENS), (3, 2)]
    assert read_manifest(file.with_suffix(".manifest.json")).model == NAME


def test_descriptions_and_golden_files(model, tmp_path):
    assert describe_picture_arrays(ENTRY.config) == (
        "`pixel_values`: float32 `[batch_size, tokens, 48]`; `pixel_attention_mask`: int32 "
        "`[batch_size, tokens]`; `spatial_shapes`: int64 `[batch_size, 2]`."
    )
    assert describe_sizes(ENTRY, Signature(None, None)) == "any aspect ratio"
    with pytest.raises(BadRequest, match="which no file makes of images itself"):
        zoo.to_onnx(model, tmp_path / "toy.onnx", input="uint8")
    feeds = PatchesInput(PATCH).sample(2, ENTRY.preprocessing, NATIVE)
    outputs = {"pooler_output": np.ones((2, 8), np.float32)}
    write_golden(tmp_path / "golden.safetensors", Golden(NAME, "this test", "", feeds, outputs))
    golden = read_golden(tmp_path / "golden.safetensors")
    assert [*golden.feeds] == [*feeds] and [*golden.outputs] == ["pooler_output"]
    for name, array in feeds.items():
        np.testing.assert_array_equal(golden.feeds[name], array)
