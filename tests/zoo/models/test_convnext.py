"""The ConvNeXts against the original, transformers, timm and Equimo, in JAX and as ONNX."""

import io
import json
import tarfile
from dataclasses import replace

import equinox as eqx
import jax
import lz4.frame
import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

import converter
import zoo
from converter.verify.sessions import run
from tests.conftest import GOLDEN
from tests.loading import naming_of
from tests.references.convnext import (
    META,
    REFERENCES,
    TIMM,
    equimo_model,
    equimo_outputs,
    run_timm,
    tensors,
    torch_state,
    transformers_model,
)
from tests.synthetic import digest, make_image, make_state
from weights import bind, load_weights, open_checkpoint, random_weights
from weights.errors import BadValues, MappingError
from weights.load import fits, nearest
from weights.mapping import plan, source_shapes
from weights.namings import convnext
from weights.writers.items import items_for
from zoo.checkpoints import golden
from zoo.checkpoints.convert import write
from zoo.checkpoints.load import load_checkpoint, namings, open_named, shapes, variants
from zoo.checkpoints.settings.equimo import equimo_metadata
from zoo.checkpoints.settings.huggingface import transformers_config
from zoo.models.build import abstract, batched, build, count_parameters
from zoo.models.config import ConvNeXtConfig

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

NAME = "dinov3_convnext_tiny"
NAMES = zoo.list_models("*convnext*")
NANO = ConvNeXtConfig(depths=(1, 1, 2, 1), dims=(8, 16, 24, 32))

ATOL = 3e-5
"""The reference's own float32 noise is 3e-6, ours against it 7e-6."""

ONNX_ATOL = 1e-4

SIZES = ("224x224", "256x384", "512x512", "230x250")
OUTPUTS = ["last_hidden_state", "pooler_output"]


class Silent:
    def stage(self, text, total=None):
        pass

    def step(self, size):
        pass


@eqx.filter_jit
def forward(model, image, layers=(), as_maps=False):
    return model(image, layers, as_maps=as_maps)


@pytest.fixture(scope="module")
def expected():
    with np.load(GOLDEN / f"{NAME}.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory, expected):
    """The seeded checkpoint under the name of the published file (111 MB)."""
    entry = zoo.info(NAME)
    path = tmp_path_factory.mktemp(NAME) / f"{NAME}.pth"
    golden.make_checkpoint(entry, path, int(expected["seed"]), Silent())
    return path


@pytest.fixture(scope="module")
def loaded(checkpoint):
    return load_checkpoint(open_named(checkpoint), zoo.info(NAME))


@pytest.fixture(scope="module")
def model(loaded):
    return bind(abstract(loaded.config), loaded.weights.arrays)


@pytest.fixture(scope="module")
def nano():
    """Seeded values of every leaf of `NANO`."""
    weights = random_weights(shapes(NANO), 5)
    return {path: weights.arrays[path] for path in shapes(NANO)}


def case(expected, size):
    """What the reference gives at a size, and the image it was given."""
    height, width = map(int, size.split("x"))
    prefix = f"{size}/"
    want = {key.removeprefix(prefix): expected[key] for key in expected if key.startswith(prefix)}
    image = make_image(int(want["image_seed"]), height, width)
    assert digest({"image": image[None]}) == str(want["image_sha256"])
    return image, want


def assert_golden(hidden, pooled, want, atol):
    pixels = np.asarray(hidden)[1:]
    assert len(pixels) == want["num_patches"]
    np.testing.assert_allclose(pooled, hidden[0], rtol=0, atol=1e-6)
    np.testing.assert_allclose(pooled, want["x_norm_clstoken"][0], rtol=0, atol=atol)
    chosen = pixels[want["patch_indices"]]
    np.testing.assert_allclose(chosen, want["x_norm_patchtokens_16"][0], rtol=0, atol=atol)
    np.testing.assert_allclose(pixels.mean(0), want["patch_mean"][0], rtol=0, atol=atol)


# ------------------------------------------------------------------------------- the original


def test_seeded_checkpoint_is_the_recipes(checkpoint, expected):
    """Bit for bit, the keys that repeat the final norm included; in a strict layout."""
    found = open_checkpoint(checkpoint).tensors
    state = {key: tensor.read() for key, tensor in found.items()}
    assert len(state) == 182
    assert digest(state) == str(expected["state_sha256"])
    keys = source_shapes(plan(convnext.META.rules, shapes(zoo.info(NAME).config)))
    repeated = convnext.META.repeated(keys)
    assert repeated == {"norms.3.weight": "norm.weight", "norms.3.bias": "norm.bias"}
    drawn = make_state(keys, int(expected["seed"]), copies=repeated)
    assert digest(drawn) == digest(state)
    assert set(torch.load(checkpoint, weights_only=True)) == set(state)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", SIZES)
def test_agrees_with_the_original(size, model, expected):
    image, want = case(expected, size)
    hidden, pooled, *_ = forward(model, image)
    assert_golden(hidden, pooled, want, ATOL)


@pytest.mark.full
def test_stages(model, expected):
    """Means and pixels of every stage; only the last has a norm."""
    image, want = case(expected, "224x224")
    order = (4, 1, 3, 2)
    states = dict(zip(order, forward(model, image, order).hidden_states, strict=True))
    maps = dict(zip(order, forward(model, image, order, True).hidden_states, strict=True))
    for number in order:
        side = 224 >> number + 1
        state, stage = np.asarray(states[number]), f"intermediate_norm/{number - 1}"
        np.testing.assert_allclose(state[0], want[f"{stage}/cls"][0], rtol=0, atol=ATOL)
        pixels = state[1:][want[f"{stage}/patch_4_indices"]]
        np.testing.assert_allclose(pixels, want[f"{stage}/patch_4"][0], rtol=0, atol=ATOL)
        assert maps[number].shape == (state.shape[1], side, side)
        np.testing.assert_allclose(maps[number].reshape(len(state[0]), -1).T, state[1:], atol=1e-6)


# ---------------------------------------------------------------------------- other libraries


@pytest.mark.parametrize("who", ["equimo", "transformers", "timm"])
def test_agrees_with_other_libraries(who, nano):
    """On the same leaves, and at a size that the strides do not divide."""
    if who == "timm":
        pytest.importorskip("timm", exc_type=ImportError)
    image = make_image(3, 75, 130)
    want = {**REFERENCES[NAME], "timm": run_timm}[who](NANO, nano, image)
    got = forward(bind(abstract(NANO), nano), image)._asdict()
    for output, values in want.items():
        assert got[output].shape == values.shape
        error = np.abs(np.asarray(got[output]) - values).max() / np.abs(values).max()
        assert error <= 1e-5, output


@pytest.mark.full
@pytest.mark.parametrize("who", ["equimo", "transformers"])
def test_the_published_size_agrees(who, loaded, model):
    image = make_image(8, 96, 160)
    want = REFERENCES[NAME][who](loaded.config, loaded.weights.arrays, image)
    got = forward(model, image)._asdict()
    for output, values in want.items():
        error = np.abs(np.asarray(got[output]) - values).max() / np.abs(values).max()
        assert error <= 1e-5, output


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_equimos(name):
    from equimo.models.convnext import ConvNeXt

    entry = zoo.info(name)
    config = entry.config
    theirs = eqx.filter_eval_shape(
        lambda key: ConvNeXt(
            depths=list(config.depths), dims=list(config.dims), num_classes=0, key=key
        ),
        jax.random.PRNGKey(0),
    )
    leaves = (x for x in jax.tree.leaves(theirs) if isinstance(x, jax.ShapeDtypeStruct))
    assert count_parameters(abstract(config)) == entry.parameters == sum(x.size for x in leaves)


def test_published_parameters():
    counts = [zoo.info(name).parameters for name in zoo.list_models("dinov3_convnext*")]
    assert counts == [27_820_128, 49_454_688, 87_566_464, 196_230_336]


# ------------------------------------------------------------------------------------- formats


def write_meta(folder, values):
    state = tensors(torch_state(values, META))
    # One storage under two names, as in the original.
    state |= {f"norms.3.{leaf}": state[f"norm.{leaf}"] for leaf in ("weight", "bias")}
    torch.save(state, folder / "meta.pth")
    return folder / "meta.pth"


def write_equimo(folder, values):
    from equimo.io import save_model

    save_model(folder / "equimo.tar.lz4", equimo_model(NANO, values), {})
    return folder / "equimo.tar.lz4"


def write_huggingface(folder, values):
    transformers_model(NANO, values).save_pretrained(folder / "huggingface")
    return folder / "huggingface"


def write_timm(folder, values):
    state = torch_state(values, TIMM)
    save_file({key: np.ascontiguousarray(value) for key, value in state.items()}, folder / "t.st")
    return folder / "t.st"


WRITERS = {
    "meta": write_meta,
    "equimo": write_equimo,
    "huggingface": write_huggingface,
    "timm": write_timm,
}


def load(path):
    found = open_checkpoint(path)
    return load_weights(found, nearest(convnext.NAMINGS, found.tensors), shapes(NANO))


@pytest.mark.parametrize("who", WRITERS)
def test_every_format_gives_the_same_leaves(who, nano, tmp_path):
    path = WRITERS[who](tmp_path, nano)
    got = load(path)
    assert got.provenance.kind == who
    assert got.provenance.rope_periods is None
    assert got.filled == ()
    for leaf, value in nano.items():
        np.testing.assert_array_equal(got.arrays[leaf], value, err_msg=leaf)
    found = open_checkpoint(path).tensors
    naming = nearest(convnext.NAMINGS, found)
    for other in (replace(NANO, depths=(1, 1, 1, 1)), replace(NANO, dims=(8, 16, 24, 40))):
        assert fits(naming, found, shapes(NANO))
        assert not fits(naming, found, shapes(other))


def test_a_norm_that_is_no_copy_is_refused(nano, tmp_path):
    path = write_meta(tmp_path, nano)
    state = torch.load(path, weights_only=True)
    state["norms.3.bias"] = state["norm.bias"] + 1
    torch.save(state, path)
    with pytest.raises(BadValues, match=r"norms\.3\.bias must repeat norm\.bias"):
        load(path)


def test_another_variant_is_refused(checkpoint):
    found = open_checkpoint(checkpoint)
    assert variants(found) == ["dinov3_convnext_tiny", "eupe_convnext_tiny"]
    with pytest.raises(MappingError) as error:
        load_checkpoint(found, zoo.info("dinov3_convnext_small"))
    assert "it looks like dinov3_convnext_tiny" in str(error.value)
    assert "not like dinov3_convnext_small" in str(error.value)
    assert namings(found, zoo.info("dinov3_vits16")) == []


@pytest.fixture
def written(nano, tmp_path):
    """The nano model in each format that is written."""
    weights = load(write_meta(tmp_path, nano))
    entry = replace(zoo.info("eupe_convnext_tiny"), config=NANO)
    paths = {"meta": "out.pth", "equimo": "out.tar.lz4", "huggingface": "out"}
    for who, name in paths.items():
        items = items_for(naming_of(entry, who), weights, shapes(NANO))
        write(who, tmp_path / name, items, entry, Silent())
    return {who: tmp_path / name for who, name in paths.items()}


def test_what_is_written_is_read_back(written, nano):
    for who, path in written.items():
        got = load(path)
        assert got.provenance.kind == who
        for leaf, value in nano.items():
            np.testing.assert_array_equal(got.arrays[leaf], value, err_msg=leaf)


def test_what_is_written_loads_where_it_belongs(written, nano):
    from equimo.io import load_weights as load_equimo
    from equimo.models.convnext import ConvNeXt
    from transformers import DINOv3ConvNextModel

    image = make_image(4, 64, 96)
    want = np.asarray(forward(bind(abstract(NANO), nano), image).pooler_output)
    state = torch.load(written["meta"], weights_only=True)
    assert torch.equal(state["norms.3.weight"], state["norm.weight"])
    theirs, info = DINOv3ConvNextModel.from_pretrained(
        written["huggingface"], output_loading_info=True
    )
    assert not any(info.values())
    with torch.no_grad():
        got = theirs.eval()(torch.from_numpy(image[None])).pooler_output[0].numpy()
    np.testing.assert_allclose(got, want, atol=1e-5)
    how = json.loads((written["huggingface"] / "preprocessor_config.json").read_text())
    assert how["size"] == {"height": 256, "width": 256}
    with tarfile.open(fileobj=io.BytesIO(lz4.frame.open(written["equimo"]).read())) as archive:
        metadata = json.load(archive.extractfile("metadata.json"))
    model = eqx.filter_eval_shape(ConvNeXt, **metadata["model_config"], key=jax.random.PRNGKey(0))
    model = load_equimo(model, path=written["equimo"])
    np.testing.assert_allclose(equimo_outputs(model, image)[1], want, atol=1e-5)


def test_a_reference_by_transformers(nano, tmp_path):
    entry = replace(zoo.info(NAME), config=NANO)
    found = load_checkpoint(open_checkpoint(write_meta(tmp_path, nano)), entry)
    made = golden.make(entry, found, make_image(1, 64, 64)[None], "transformers")
    assert max(golden.check_jax(made, found).values()) <= 1e-5


def test_configurations_of_others():
    config = zoo.info("dinov3_convnext_base").config
    assert transformers_config(config, (), False)["hidden_sizes"] == [128, 256, 512, 1024]
    assert equimo_metadata(config)["model_config"]["depths"] == [3, 3, 27, 3]


# ---------------------------------------------------------------------------------------- ONNX


def exported(model, size, opset):
    return converter.to_onnx(
        batched,
        [("batch_size", 3, *size)],
        params=model,
        opset=opset,
        input_names=["pixel_values"],
        output_names=OUTPUTS,
    )


def assert_file(file, expected, size):
    image, want = case(expected, size)
    other = make_image(1, *image.shape[1:])
    outputs = run(file, [np.stack([other, image])])
    assert_golden(*(outputs[name][1] for name in OUTPUTS), want, ONNX_ATOL)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("opset", [18, 20, 23, 24])
def test_golden_outputs_at_every_opset(opset, model, expected, tmp_path):
    """In a batch that is open in the file."""
    exported(model, (224, 224), opset).save(tmp_path / "model.onnx")
    assert_file(tmp_path / "model.onnx", expected, "224x224")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("size", "opset"), [("256x384", 23), ("230x250", 23), ("256x384", 18)])
def test_golden_outputs_at_other_sizes(size, opset, model, expected, tmp_path):
    height, width = map(int, size.split("x"))
    exported(model, (height, width), opset).save(tmp_path / "model.onnx")
    assert_file(tmp_path / "model.onnx", expected, size)


def test_height_and_width_may_stay_open(model, expected, tmp_path):
    export = exported(model, ("32*h", "32*w"), 23)
    assert export.report.fused == {"LayerNormalization": 23, "Gelu": 18}
    export.save(tmp_path / "model.onnx")
    for size in ("224x224", "256x384"):
        assert_file(tmp_path / "model.onnx", expected, size)


@pytest.mark.full
@pytest.mark.parametrize("as_maps", [True, False])
def test_stages_in_a_file(as_maps, nano):
    model = bind(abstract(NANO), nano)
    images = np.stack([make_image(seed, 64, 96) for seed in (1, 2)])

    @eqx.filter_jit
    def stages(model, x):
        return jax.vmap(lambda image: model(image, (1, 2, 3, 4), as_maps=as_maps))(x)

    for opset in (18, 23):
        export = converter.to_onnx(stages, [("B", 3, 64, 96)], params=model, opset=opset)
        errors = converter.check(export, lambda x: stages(model, x), [images])
        assert len(errors) == 6
        assert max(error.max_abs for error in errors.values()) <= 1e-5


def test_fused_structure(model):
    for size in ((224, 224), (256, 384)):
        report = exported(model, size, 23).report
        assert report.fused == {"LayerNormalization": 23, "Gelu": 18}
        assert report.near_misses == []
        assert report.nodes <= 199
        # Two around each depthwise convolution, one behind or two around the other four. torch's
        # own export of transformers' model has 232 nodes.
        assert report.histogram["Transpose"] <= 40
    report = exported(model, (224, 224), 18).report
    assert report.fused == {"LayerNormalization": 23}
    assert report.nodes <= 199 + 4 * 18, "a Gelu is five nodes there"


def test_initializers_have_the_names_of_the_leaves(model, loaded):
    """But the factors of LayerScale, which are in the weights and biases before them."""
    names = set(exported(model, (224, 224), 23).model.graph.initializers)
    folded = {name for name in shapes(loaded.config) if name.endswith("ls.gamma")}
    assert folded and not folded & names
    assert set(shapes(loaded.config)) - folded <= names


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_every_variant_converts(name):
    entry = zoo.info(name)
    report = exported(abstract(entry.config), entry.preprocessing.size, 23).report
    blocks = entry.config.depth
    assert report.fused == {"LayerNormalization": blocks + 5, "Gelu": blocks}
    assert report.near_misses == []


# ------------------------------------------------------------------------------------- entries


def test_a_classifier():
    """Other leaves are those of the network without one; torch's layer makes the same logits."""
    config = replace(zoo.info("dinov3_convnext_tiny").config, depths=(1, 1, 1, 1), dims=(8,) * 4)
    bare, model = (build(replace(config, classes=n), key=jax.random.key(3)) for n in (0, 10))
    assert eqx.tree_equal(eqx.tree_at(lambda m: m.head, model, None), bare)
    output = model(jax.numpy.asarray(make_image(1, 64, 96)))
    layer = torch.nn.Linear(8, 10)
    layer.weight.data = torch.tensor(np.asarray(model.head.weight))
    layer.bias.data = torch.tensor(np.asarray(model.head.bias))
    wanted = layer(torch.tensor(np.asarray(output.pooler_output))).detach().numpy()
    np.testing.assert_allclose(output.logits, wanted, rtol=0, atol=1e-6)


def test_entries():
    assert len(NAMES) == 7
    assert zoo.info("dinov3_convnext_tiny_pretrain_lvd1689m").name == NAME
    assert zoo.info("EUPE-ConvNeXt-B").name == "eupe_convnext_base"
    for name in NAMES:
        entry = zoo.info(name)
        assert entry.config.stride == 32
        assert entry.pooler == "the mean of the last map, normed"
        assert [naming.name for naming in entry.namings] == list(WRITERS)
    eupe = zoo.info("eupe_convnext_tiny")
    assert eupe.preprocessing.size == (256, 256)
    assert eupe.licence.name == "FAIR Noncommercial Research License"
    assert eupe.hub[0].name == "EUPE-ConvNeXt-T.pt"
    assert eupe.mirrors[0].name == "models/default/eupe/eupe_convnext_tiny.tar.lz4"
