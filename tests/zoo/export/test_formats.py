"""The same weights through every format: the same leaves, the same ONNX file."""

import io
import tarfile
from dataclasses import replace

import equinox as eqx
import jax
import lz4.frame
import numpy as np
import pytest
import torch

import converter
from converter.verify.sessions import run
from tests import loading
from tests.conftest import GOLDEN
from tests.formats import (
    CONFIGS,
    FLOAT32_PERIODS,
    HAS_PERIODS,
    NANO,
    WRITERS,
    equimo_model,
    huggingface_model,
    seeded,
    timm_state,
    zero_mask,
)
from tests.synthetic import make_image
from weights import bind, leaf_shapes, open_checkpoint
from weights.errors import BadValues, MappingError
from weights.load import fits, nearest
from zoo.checkpoints.load import shapes as shapes_of
from zoo.models.build import abstract, batched
from zoo.registry.families.dinov3 import NAMINGS

PERIODS = "local_pos_embed.periods"

forward = eqx.filter_jit(lambda model, image: model(image))

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="session", params=CONFIGS)
def files(request, tmp_path_factory):
    """A configuration and its checkpoint, bfloat16 periods, in every format."""
    config = CONFIGS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    state = seeded(config, 31)
    return config, state, {name: write(folder, config, state) for name, write in WRITERS.items()}


def load(config, path):
    return loading.load(path, shapes_of(config))


def used(config):
    """Leaves that inference needs."""
    shapes = leaf_shapes(abstract(config))
    return [name for name in shapes if not name.startswith(("mask_token", "local_cls_norm"))]


@pytest.mark.parametrize("name", WRITERS)
def test_leaves_are_the_same_bits(name, files):
    config, _, paths = files
    want, got = load(config, paths["meta"]), load(config, paths[name])
    for leaf in used(config):
        if leaf == PERIODS and name not in HAS_PERIODS:
            continue
        assert got.arrays[leaf].tobytes() == want.arrays[leaf].tobytes(), leaf
    assert got.provenance.rope_periods == ("file" if name in HAS_PERIODS else "float32")
    assert got.provenance.kind == name.split()[0]
    assert set(got.filled) <= {"mask_token", "local_cls_norm.weight", "local_cls_norm.bias"}


def onnx_file(config, arrays, folder, opset=23, size=(32, 48)):
    export = converter.to_onnx(
        batched,
        [("batch_size", 3, *size)],
        params=abstract(config),
        opset=opset,
        input_names=["pixel_values"],
        output_names=["last_hidden_state", "pooler_output"],
    )
    export.save(folder / "model.onnx", values=arrays)
    return folder / "model.onnx"


@pytest.mark.parametrize("name", CONFIGS)
def test_onnx_files_are_the_same_bytes(name, tmp_path):
    """With float32 periods in the checkpoint no format differs in anything."""
    config = CONFIGS[name]
    state = seeded(config, 7, FLOAT32_PERIODS)
    paths = {name: write(tmp_path, config, state) for name, write in WRITERS.items()}
    want = onnx_file(config, load(config, paths.pop("meta")).arrays, tmp_path).read_bytes()
    for format, path in paths.items():
        got = onnx_file(config, load(config, path).arrays, tmp_path).read_bytes()
        assert got == want, format


@pytest.mark.full
@pytest.mark.parametrize("mask", ["thirds", "zeros"])
@pytest.mark.parametrize("name", CONFIGS)
def test_models_agree_with_transformers(name, mask, tmp_path):
    """SwiGLU, no biases, untied norms; masks of zeros and of thirds; from every format."""
    config = CONFIGS[name]
    draws = {**FLOAT32_PERIODS, **({"mask": zero_mask} if mask == "zeros" else {})}
    state = seeded(config, 11, draws)
    image = make_image(3, 64, 96)
    with torch.no_grad():
        want = huggingface_model(config, state)(torch.from_numpy(image[None]))
    for write in (WRITERS["meta"], WRITERS["equimo"], WRITERS["timm"]):
        values = load(config, write(tmp_path, config, state)).arrays
        tokens, *_ = forward(bind(abstract(config), values), jax.numpy.asarray(image))
        np.testing.assert_allclose(tokens, want.last_hidden_state[0], rtol=0, atol=3e-5)
    for opset in (18, 23):
        outputs = run(onnx_file(config, values, tmp_path, opset, (64, 96)), [image[None]])
        for output, tensor in outputs.items():
            np.testing.assert_allclose(tensor, want[output], rtol=0, atol=1e-4)


def test_what_a_file_is_like(files):
    config, _, paths = files
    for name, path in paths.items():
        tensors = open_checkpoint(path).tensors
        naming = nearest(NAMINGS, tensors)
        assert naming.name == name.split()[0]
        assert fits(naming, tensors, shapes_of(config))
        assert not fits(naming, tensors, shapes_of(replace(config, depth=config.depth + 1)))
        assert not fits(naming, tensors, shapes_of(replace(config, patch_size=14)))
        untied = replace(config, untied_norms=not config.untied_norms)
        assert fits(naming, tensors, shapes_of(untied)) == (name not in HAS_PERIODS)


def test_half_precision(tmp_path):
    """bfloat16 leaves of Equimo and half precision in safetensors, every value kept."""
    from equimo.io import save_model
    from safetensors.torch import save_file

    state = seeded(NANO, 5)
    save_model(tmp_path / "half.tar.lz4", equimo_model(NANO, state, "bfloat16"), {})
    values = load(NANO, tmp_path / "half.tar.lz4").arrays
    assert {t.dtype for t in open_checkpoint(tmp_path / "half.tar.lz4").tensors.values()} == {
        "bfloat16"
    }
    for dtype in (torch.bfloat16, torch.float16):
        tensors = {k: torch.from_numpy(np.array(v)).to(dtype) for k, v in timm_state(state).items()}
        save_file(tensors, tmp_path / "half.safetensors")
        got = load(NANO, tmp_path / "half.safetensors").arrays
        want = tensors["blocks.1.mlp.fc1.weight"].float().numpy()
        np.testing.assert_array_equal(got["blocks.1.mlp.fc1.weight"], want)
        if dtype == torch.bfloat16:
            np.testing.assert_array_equal(values["blocks.1.mlp.fc1.weight"], want)


def test_equimos_own_archive():
    """Written by Equimo 1.1.0 from the published recipe, bias mask folded in."""
    values = load(NANO, GOLDEN / "equimo_v1_dinov3_nano.tar.lz4").arrays
    state = seeded(NANO, 31)
    pairs = {
        "blocks.1.prenorm.weight": "blocks.1.norm1.weight",
        "blocks.1.norm.bias": "blocks.1.norm2.bias",
        "blocks.0.mlp.fc2.weight": "blocks.0.mlp.fc2.weight",
        "local_cls_norm.weight": "local_cls_norm.weight",
        PERIODS: "rope_embed.periods",
    }
    for leaf, key in pairs.items():
        np.testing.assert_array_equal(values[leaf], state[key], err_msg=leaf)
    bias = state["blocks.1.attn.qkv.bias"] * state["blocks.1.attn.qkv.bias_mask"]
    np.testing.assert_array_equal(values["blocks.1.attn.qkv.bias"], bias)


@pytest.mark.parametrize("name", ["equimo_v1_dinov3_nano", "equimo_v2_dinov2_nano"])
def test_records_are_what_numpy_reads(name):
    path = GOLDEN / f"{name}.tar.lz4"
    with lz4.frame.open(path) as file, tarfile.open(fileobj=io.BytesIO(file.read())) as tar:
        stream = io.BytesIO(tar.extractfile("weights.eqx").read())
    checkpoint = open_checkpoint(path)
    size = stream.getbuffer().nbytes
    arrays = []
    while stream.tell() < size:
        arrays.append(np.load(stream, allow_pickle=False))
    arrays = [array for array in arrays if array.ndim]
    assert len(arrays) == len(checkpoint.tensors)
    # Backwards, so that reading has to go back in the compressed file.
    for array, tensor in reversed(list(zip(arrays, checkpoint.tensors.values(), strict=True))):
        np.testing.assert_array_equal(tensor.read(), array)
    assert checkpoint.container.endswith("2.x" if "v2" in name else "1.x")
    assert ("global_pos_embed.weight" in checkpoint.tensors) == ("v2" in name)


def test_a_bias_that_the_model_lacks_must_be_zero(tmp_path):
    """Equimo 1.x gives the 7B model biases that the published file does not have."""
    from equimo.io import save_model

    config = CONFIGS["biasless"]
    model = equimo_model(config, seeded(config, 3))
    save_model(tmp_path / "a.tar.lz4", model, {})
    assert load(config, tmp_path / "a.tar.lz4")
    bad = jax.tree.map(lambda leaf: leaf + 1 if isinstance(leaf, jax.Array) else leaf, model)
    save_model(tmp_path / "b.tar.lz4", bad, {})
    with pytest.raises(BadValues, match=r"no place for blocks\.0\.blocks\.0\.attn\.qkv\.bias"):
        load(config, tmp_path / "b.tar.lz4")


def test_another_model(tmp_path):
    path = WRITERS["huggingface"](tmp_path, CONFIGS["gated"], seeded(CONFIGS["gated"], 1))
    with pytest.raises(MappingError, match="does not fit the model"):
        load(NANO, path)
