"""Checkpoints as training scripts save them: nested tables, prefixes, low precision, other values.

Ways of saving are drawn. Each is compared with the outputs of the model that was saved.
"""

import argparse
import json
import pathlib
from collections import OrderedDict, defaultdict
from dataclasses import astuple, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import equinox as eqx
import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import zoo as package
from tests.references.classifiers import CLASSES, SIZED, STAGES, seeded
from tests.tiers import covering
from weights.errors import MappingError, WeightsError
from zoo.checkpoints.identify import identify_checkpoint
from zoo.checkpoints.source import GivenCheckpoint

forward = eqx.filter_jit(lambda model, picture: model(picture))

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "vit": ("ViTForImageClassification", {**SIZED, "intermediate_size": 80}),
    "dinov2": ("Dinov2ForImageClassification", {**SIZED, "mlp_ratio": 3}),
    "convnextv2": ("ConvNextV2ForImageClassification", STAGES),
    "dinov2, gated": ("Dinov2ForImageClassification", {**SIZED, "use_swiglu_ffn": True}),
    "deit": ("DeiTForImageClassificationWithTeacher", {**SIZED, "intermediate_size": 80}),
    "swinv2": (
        "Swinv2ForImageClassification",
        {
            **{"embed_dim": 12, "depths": [1, 2], "num_heads": [2, 3]},
            "window_size": 3,
            "image_size": 8,
        },
    ),
}
"""Classes of transformers and settings of small networks."""

FAMILIES = {"convnextv2": "convnext", "dinov2, gated": "dinov2"}
"""The zoo's names of architectures that have another name in `KINDS`."""

PREFIXES = (
    *("", "module.", "_orig_mod.", "_orig_mod.module.", "model.", "backbone.", "net.encoder.0."),
    *("module.backbone.", "base_model.model.", "student.module._fsdp_wrapped_module.", "ema."),
)
"""Prefixes of all names in the state dict."""

NESTINGS: dict[str, Any] = {
    "plain": lambda state: state,
    "model": lambda state: {"model": state, "epoch": 12},
    "state_dict": lambda state: {"state_dict": state, "pytorch-lightning_version": "2.5"},
    "model_state_dict": lambda state: {
        "model_state_dict": state,
        "optimizer_state_dict": OPTIMIZER,
    },
    "teacher": lambda state: {"teacher": state, "optimizer": OPTIMIZER, "iteration": 3},
    "twice": lambda state: {"checkpoint": {"net": OrderedDict(state)}, "loss": [0.5, 0.4]},
    "pairs": lambda state: {"weights": list(state.items())},
    "averaged": lambda state: {
        "state_dict": {key: torch.zeros_like(value) for key, value in state.items()},
        "state_dict_ema": state,
    },
    "teacher and student": lambda state: {
        "student": {key: torch.zeros_like(value) for key, value in state.items()},
        "teacher": state,
    },
    "lightning's mean": lambda state: {
        "state_dict": state,
        "current_model_state": {key: torch.zeros_like(value) for key, value in state.items()},
        "averaging_state": {},
    },
}
"""Functions that nest a state dict in what a script saves."""

OPTIMIZER = {
    "state": {0: {"step": torch.tensor(3.0), "exp_avg": torch.ones(3, 5)}},
    "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.999), "params": [0]}],
}
"""The state of an optimizer."""


class Trainer:
    """A class that only exists in the training script."""

    def __init__(self) -> None:
        self.best = {"accuracy": 0.9}


EXTRAS: dict[str, Any] = {
    "nothing": {},
    "arguments": {"args": argparse.Namespace(lr=0.1, out=pathlib.PurePosixPath("runs/1"))},
    "numbers of numpy": {"best": np.float64(0.9), "curve": np.arange(3), "seed": np.int64(7)},
    "containers": {"seen": {3, 4}, "fixed": frozenset({1}), "log": defaultdict(list, a=[1])},
    "tuples for keys": {"ranks": {(0, 1): 2, (1, 1): 3}, None: 4},
    "an object": {"trainer": Trainer(), "type": torch.float16, "device": torch.device("cpu")},
}
"""Other values that a script saves beside the tensors."""

DTYPES = {"float32": 2e-5, "float64": 2e-5, "float16": 2e-2, "bfloat16": 2e-1}
"""Dtypes of saved tensors, and the limit of a difference of logits relative to the largest."""


@dataclass(frozen=True)
class Way:
    """A way of saving a network of `KINDS`.

    `in_memory` says whether the tensors have their names in memory or those in transformers' files.
    """

    kind: str
    container: str
    nesting: str
    prefix: str
    dtype: str
    extra: str
    in_memory: bool

    def __str__(self) -> str:
        return ", ".join(map(str, astuple(self)))


TABLES = ("pth", "bin")
"""Containers that hold other values than tensors, too."""

CONTAINERS = (*TABLES, "safetensors", "shards", "safetensors in shards", "a variant")
"""Containers of checkpoints."""


def drawn_ways() -> list[Way]:
    """Return drawn ways that contain every pair of choices."""
    rng = np.random.default_rng(11)
    options = (KINDS, CONTAINERS, NESTINGS, PREFIXES, DTYPES, EXTRAS, (True, False))
    ways = [Way(*([*row][rng.integers(len(row))] for row in options)) for _ in range(1500)]
    plain = {"nesting": "plain", "extra": "nothing"}
    ways = [way if way.container in TABLES else replace(way, **plain) for way in ways]
    return [ways[index] for index in covering([vars(way) for way in ways], 2)]


@cache
def trained(kind: str) -> Any:
    """Return the seeded model of transformers."""
    return seeded(*KINDS[kind])


@cache
def reference_logits(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a picture and transformers' logits for it."""
    picture = np.random.default_rng(5).standard_normal((1, 3, 40, 40), np.float32)
    with torch.no_grad():
        return picture[0], trained(kind)(torch.from_numpy(picture)).logits[0].numpy()


def state_in(way: Way, folder: Path) -> dict[str, torch.Tensor]:
    """Return the tensors with the names that they have in memory or in transformers' files."""
    model = trained(way.kind)
    if way.in_memory:
        state = model.state_dict()
    else:
        model.save_pretrained(folder / "theirs")
        state = load_file(folder / "theirs" / "model.safetensors")
    dtype = getattr(torch, way.dtype)
    return {way.prefix + key: value.detach().clone().to(dtype) for key, value in state.items()}


SHARDS = {
    "shards": (torch.save, "pytorch_model", "bin"),
    "safetensors in shards": (save_file, "model", "safetensors"),
}
"""The function that writes a shard, and the stem and ending of transformers' file names."""


def write_shards(
    state: dict[str, torch.Tensor], out: Path, write_shard: Any, stem: str, ending: str
) -> None:
    """Write two files and their index."""
    names = list(state)
    halves = (names[::2], names[1::2])
    for number, half in enumerate(halves):
        write_shard({key: state[key] for key in half}, out / f"{stem}-{number}.{ending}")
    file_names = {
        key: f"{stem}-{number}.{ending}" for number, half in enumerate(halves) for key in half
    }
    index = {"metadata": {}, "weight_map": file_names}
    (out / f"{stem}.{ending}.index.json").write_text(json.dumps(index))


def save(way: Way, folder: Path) -> Path:
    """Write what a script would leave in a folder, with a config.json.

    Return the checkpoint's path.
    """
    state = state_in(way, folder)
    out = folder / "run"
    out.mkdir()
    trained(way.kind).config.save_pretrained(out)
    if way.container == "safetensors":
        save_file(state, out / "model.safetensors")
    if way.container == "a variant":
        save_file(state, out / "model.fp16.safetensors")
        torch.save(OPTIMIZER, out / "optimizer.pt")
    if way.container in SHARDS:
        write_shards(state, out, *SHARDS[way.container])
    if way.container not in TABLES:
        return out
    content = NESTINGS[way.nesting](state)
    extra = EXTRAS[way.extra]
    path = out / ("pytorch_model.bin" if way.container == "bin" else "model.pth")
    if extra and way.nesting == "plain":
        content = {"weights": content}
    torch.save({**content, **extra}, path)
    return out if way.container == "bin" else path


@pytest.mark.each(*(f"way.{field.name}" for field in fields(Way)))
@pytest.mark.parametrize("way", drawn_ways(), ids=str)
def test_ways_of_saving(way, tmp_path):
    """The logits are those of the saved model, within the rounding of its dtype.

    The default tier has each choice once, and the full tier each pair of choices.
    """
    path = save(way, tmp_path)
    picture, expected = reference_logits(way.kind)
    model = package.from_pretrained(FAMILIES.get(way.kind, way.kind), path)
    actual = np.asarray(forward(model, picture).logits)
    assert np.abs(actual - expected).max() <= DTYPES[way.dtype] * np.abs(expected).max()
    assert model.labels == CLASSES


# -------------------------------------------------------------------------------------------- heads


class WithHead(torch.nn.Module):
    """A linear layer on a DINOv3, as users write it.

    `name` is the name of the layer. It takes the class token, and with `parts` = 2 also the mean of
    the patches.
    """

    def __init__(self, name: str, parts: int):
        super().__init__()
        torch.manual_seed(3)
        config = transformers.DINOv3ViTConfig(
            **{"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4},
            **{"intermediate_size": 96, "patch_size": 8, "num_register_tokens": 2},
        )
        self.backbone, self.name, self.parts = transformers.DINOv3ViTModel(config), name, parts
        setattr(self, name, torch.nn.Linear(48 * parts, 5, bias=name != "fc"))
        with torch.no_grad():
            for value in self.parameters():
                value.add_(0.2 * torch.randn_like(value))

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        output = self.backbone(pictures)
        tokens = [output.pooler_output, output.last_hidden_state[:, 3:].mean(1)][: self.parts]
        return getattr(self, self.name)(torch.cat(tokens, -1))


def change_settings(folder, **changes):
    """Write settings into the config.json of a folder."""
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(("name", "parts"), [("head", 1), ("classifier", 2), ("fc", 1)])
def test_a_custom_head(name, parts, zoo, tmp_path):
    """The zoo computes the logits of the trained module."""
    module = WithHead(name, parts).eval()
    module.backbone.config.save_pretrained(tmp_path)
    if parts == 1:
        change_settings(tmp_path, global_pool="token")
    torch.save({"model": module.state_dict()}, tmp_path / "pytorch_model.bin")
    pictures = torch.randn((2, 3, 32, 48), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = module(pictures).numpy()
    model = package.from_pretrained("dinov3", tmp_path)
    actual = np.stack([forward(model, picture).logits for picture in pictures.numpy()])
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-5 * np.abs(expected).max())
    headless = package.from_pretrained("dinov3", tmp_path, without_head=True)
    assert forward(headless, pictures[0].numpy()).logits is None


def test_a_head_that_is_no_linear_layer(tmp_path):
    """The checkpoint is refused unless the caller only wants features."""
    module = WithHead("head", 1)
    module.head = torch.nn.Sequential(
        torch.nn.Linear(48, 9), torch.nn.ReLU(), torch.nn.Linear(9, 5)
    )
    module.backbone.config.save_pretrained(tmp_path)
    torch.save(module.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(MappingError, match=r"does not use \(head.*`without_head`"):
        package.from_pretrained("dinov3", tmp_path)
    assert package.from_pretrained("dinov3", tmp_path, without_head=True).head is None


def test_the_command_prints_what_was_read(zoo, tmp_path):
    """The command prints the prefix, the unused groups of tensors, objects and files."""
    state = trained("dinov2").state_dict()
    extra = {f"dino_head.mlp.{i}.weight": torch.ones(48, 48) for i in range(3)}
    content = {"teacher": {f"backbone.{k}": v for k, v in state.items()} | extra}
    trained("dinov2").config.save_pretrained(tmp_path / "run")
    torch.save(content | EXTRAS["arguments"], tmp_path / "run" / "pytorch_model.bin")
    (tmp_path / "run" / "other.pth").write_bytes(b"")
    printed = zoo("weights", "convert", tmp_path / "run", tmp_path / "out").err
    count = len(state) + 3
    assert "read as dinov2 from `teacher.backbone.dinov2.`" in printed
    assert f"3 of {count} tensors were not used: teacher.dino_head.*" in printed
    assert "args (argparse.Namespace)" in printed and "not read: other.pth" in printed


def test_one_of_several_networks_must_be_chosen(tmp_path):
    state = trained("vit").state_dict()
    model = {"encoder_q": state, "encoder_k": {k: 2 * v for k, v in state.items()}}
    trained("vit").config.save_pretrained(tmp_path)
    torch.save(model, tmp_path / "pytorch_model.bin")
    with pytest.raises(WeightsError, match=r"2 networks.*`take`, of 'encoder_q.vit'"):
        package.from_pretrained("vit", tmp_path)
    first, second = (package.from_pretrained("vit", tmp_path, take=f"encoder_{x}") for x in "qk")
    np.testing.assert_array_equal(2 * first.cls_token, second.cls_token)


def assert_trained(kind, path):
    """Compare the logits with those of the trained network."""
    picture, expected = reference_logits(kind)
    actual = np.asarray(forward(package.from_pretrained(kind, path), picture).logits)
    assert np.abs(actual - expected).max() <= 2e-5 * np.abs(expected).max()


def test_settings_beside_a_file_of_any_name(zoo, tmp_path):
    """Settings are followed unless they belong to another file or to another network."""
    with_settings, with_other_settings = tmp_path / "own", tmp_path / "other"
    for folder in (with_settings, with_other_settings):
        folder.mkdir()
        torch.save({"state_dict": trained("vit").state_dict()}, folder / "last.pth.tar")
    trained("vit").config.save_pretrained(with_settings)
    assert_trained("vit", with_settings / "last.pth.tar")
    (with_other_settings / "config.json").write_text(
        '{"architectures": ["LlamaForCausalLM"], "model_type": "x"}'
    )
    printed = zoo("export", "--weights", with_other_settings / "last.pth.tar", code=2).err
    assert "no tensor tells how many heads" in printed
    printed = zoo("weights", "inspect", with_other_settings / "last.pth.tar").err
    assert "config.json beside it is of LlamaForCausalLM, and had no effect" in printed
    (with_settings / "model.safetensors").write_bytes(b"")
    printed = zoo("export", "--weights", with_settings / "last.pth.tar", code=2).error
    assert "no tensor tells how many heads" in printed


def write_with_adapter(folder):
    """Write a network that contains an unmerged adapter of peft."""
    state = {}
    for key, value in trained("vit").state_dict().items():
        layer, ending = key.rsplit(".", 1)
        is_adapted = layer.endswith("q_proj")
        name = f"{layer}.base_layer.{ending}" if is_adapted else key
        state[f"base_model.model.{name}"] = value
        if is_adapted and ending == "weight":
            for factor, shape in {"A": (2, 48), "B": (48, 2)}.items():
                state[f"base_model.model.{layer}.lora_{factor}.default.weight"] = torch.ones(shape)
    torch.save(state, folder / "pytorch_model.bin")
    trained("vit").config.save_pretrained(folder)


def write_quantized(folder):
    """Write a network that a library has quantized to integers."""
    state = trained("vit").state_dict()
    small = {key: value.to(torch.int8) for key, value in state.items() if value.ndim == 2}
    save_file(state | small, folder / "model.safetensors")
    trained("vit").config.save_pretrained(folder)


def write_steps(folder):
    """Write the checkpoints of several training steps."""
    for step in (10, 20):
        trained("vit").save_pretrained(folder / f"checkpoint-{step}")


def write_old_format(folder):
    path = folder / "pytorch_model.bin"
    torch.save({"a": torch.ones(1)}, path, _use_new_zipfile_serialization=False)


def write_another_network(folder):
    config = transformers.BeitConfig(**SIZED, intermediate_size=80)
    transformers.BeitModel(config).save_pretrained(folder)


NOT_READ = {
    "an adapter that is not merged": (write_with_adapter, r"lora_A.*`merge_and_unload\(\)`"),
    "whole numbers": (write_quantized, r"in int8\), .* save the network in floats"),
    "steps of a training": (write_steps, r"name one of checkpoint-10, checkpoint-20"),
    "a library's own": (
        lambda folder: (folder / "tf_model.h5").write_bytes(b"\x89HDF"),
        r"tf_model\.h5 is a file of another library; save the network as safetensors",
    ),
    "before 1.6": (write_old_format, "PyTorch before 1.6.*to the current format"),
    "a module": (
        lambda folder: torch.save(torch.nn.Linear(2, 2), folder / "pytorch_model.bin"),
        r"objects \(torch\.nn\.modules\.linear\.Linear\).*could run code",
    ),
    "another network": (write_another_network, "says that it is a BeitModel"),
    "parts of a training": (
        lambda folder: (folder / ".metadata").write_bytes(b""),
        "distributed checkpoint",
    ),
}
"""Functions that write a folder that is refused, with the error."""


@pytest.mark.parametrize("kind", NOT_READ)
def test_a_folder_that_is_not_read(kind, tmp_path):
    """The error says what to do."""
    write, message = NOT_READ[kind]
    write(tmp_path)
    with pytest.raises(WeightsError, match=message):
        identify_checkpoint(GivenCheckpoint(tmp_path))


def test_custom_weights_have_a_custom_name_and_no_licence(zoo, tmp_path):
    """The user may state a name and a licence. Two models of a family can share a folder."""
    for name in ("cats", "dogs"):
        trained("vit").save_pretrained(tmp_path / name)
        zoo("export", "--weights", tmp_path / name, "--size", 40, "--out", "made")
    manifest = json.loads((zoo.here / "made" / "dogs-opset23.manifest.json").read_text())
    assert (manifest["model"], manifest["family"]) == ("dogs", "vit")
    assert manifest["licence"]["name"] == "not stated" and (zoo.here / "made" / "cats-opset23.onnx")
    options = ("--name", "birds", "--licence", "mit")
    zoo("export", "--weights", tmp_path / "cats", "--size", 40, *options)
    manifest = json.loads((zoo.here / "birds-opset23.manifest.json").read_text())
    assert manifest["licence"]["name"] == "MIT License"
    zoo("verify", "birds-opset23.onnx", "--weights", tmp_path / "cats")
