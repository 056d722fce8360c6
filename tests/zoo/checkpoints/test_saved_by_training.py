"""What training scripts leave on disks: tables in tables, prefixes, halves, and things beside.

Ways of saving are drawn, and each is judged by the numbers of the model that was saved.
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

FAMILIES = {"convnextv2": "convnext", "dinov2, gated": "dinov2"}
"""How the zoo calls the architecture, where that is another name."""

PREFIXES = (
    *("", "module.", "_orig_mod.", "_orig_mod.module.", "model.", "backbone.", "net.encoder.0."),
    *("module.backbone.", "base_model.model.", "student.module._fsdp_wrapped_module.", "ema."),
)
"""What stands before every name, in the state dict itself."""

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

OPTIMIZER = {
    "state": {0: {"step": torch.tensor(3.0), "exp_avg": torch.ones(3, 5)}},
    "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.999), "params": [0]}],
}


class Trainer:
    """Of a script that nobody else has."""

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

DTYPES = {"float32": 2e-5, "float64": 2e-5, "float16": 2e-2, "bfloat16": 2e-1}
"""With how far an answer may be away that was computed from rounded weights, of the largest."""


@dataclass(frozen=True)
class Way:
    """A way of saving."""

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
"""Containers of more than tensors."""

CONTAINERS = (*TABLES, "safetensors", "shards", "safetensors in shards", "a variant")


def drawn() -> list[Way]:
    """Ways with every pair of choices between them."""
    rng = np.random.default_rng(11)
    options = (KINDS, CONTAINERS, NESTINGS, PREFIXES, DTYPES, EXTRAS, (True, False))
    ways = [Way(*([*each][rng.integers(len(each))] for each in options)) for _ in range(1500)]
    plain = {"nesting": "plain", "extra": "nothing"}
    ways = [way if way.container in TABLES else replace(way, **plain) for way in ways]
    return [ways[at] for at in covering([vars(way) for way in ways], 2)]


@cache
def trained(kind: str) -> Any:
    """A model of transformers."""
    return seeded(*KINDS[kind])


@cache
def of_transformers(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """A picture, and the logits of it."""
    picture = np.random.default_rng(5).standard_normal((1, 3, 40, 40), np.float32)
    with torch.no_grad():
        return picture[0], trained(kind)(torch.from_numpy(picture)).logits[0].numpy()


def state_in(way: Way, folder: Path) -> dict[str, torch.Tensor]:
    """Names as they are in memory or in the files of transformers."""
    model = trained(way.kind)
    if way.in_memory:
        state = model.state_dict()
    else:
        model.save_pretrained(folder / "theirs")
        state = load_file(folder / "theirs" / "model.safetensors")
    kind = getattr(torch, way.dtype)
    return {way.prefix + key: value.detach().clone().to(kind) for key, value in state.items()}


SHARDS = {
    "shards": (torch.save, "pytorch_model", "bin"),
    "safetensors in shards": (save_file, "model", "safetensors"),
}
"""By what each is written, and how transformers calls it."""


def in_shards(state: dict[str, torch.Tensor], out: Path, write: Any, name: str, end: str) -> None:
    """Two files, with an index."""
    names = list(state)
    halves = (names[::2], names[1::2])
    for number, half in enumerate(halves):
        write({key: state[key] for key in half}, out / f"{name}-{number}.{end}")
    places = {key: f"{name}-{number}.{end}" for number, half in enumerate(halves) for key in half}
    index = {"metadata": {}, "weight_map": places}
    (out / f"{name}.{end}.index.json").write_text(json.dumps(index))


def save(way: Way, folder: Path) -> Path:
    """What a script would leave in a folder, with its config.json."""
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
        in_shards(state, out, *SHARDS[way.container])
    if way.container not in TABLES:
        return out
    content = NESTINGS[way.nesting](state)
    extra = EXTRAS[way.extra]
    path = out / ("pytorch_model.bin" if way.container == "bin" else "model.pth")
    if extra and way.nesting == "plain":
        content = {"weights": content}
    torch.save({**content, **extra}, path)
    return out if way.container == "bin" else path


@pytest.mark.each(*(f"way.{each.name}" for each in fields(Way)))
@pytest.mark.parametrize("way", drawn(), ids=str)
def test_ways_of_saving(way, tmp_path):
    """Each choice by default, each pair of choices in the full tier."""
    path = save(way, tmp_path)
    picture, want = of_transformers(way.kind)
    model = package.from_pretrained(FAMILIES.get(way.kind, way.kind), path)
    got = np.asarray(forward(model, picture).logits)
    assert np.abs(got - want).max() <= DTYPES[way.dtype] * np.abs(want).max()
    assert model.labels == CLASSES


# -------------------------------------------------------------------------------------------- heads


class Headed(torch.nn.Module):
    """A linear layer on a DINOv3, as people write it."""

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
        found = self.backbone(pictures)
        tokens = [found.pooler_output, found.last_hidden_state[:, 3:].mean(1)][: self.parts]
        return getattr(self, self.name)(torch.cat(tokens, -1))


def settle(folder, **others):
    """Write settings into the config.json of a folder."""
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **others}))


@pytest.mark.parametrize(("name", "parts"), [("head", 1), ("classifier", 2), ("fc", 1)])
def test_a_head_of_ones_own(name, parts, zoo, tmp_path):
    """It gives logits, as the module that was trained does, and that is said."""
    module = Headed(name, parts).eval()
    module.backbone.config.save_pretrained(tmp_path)
    if parts == 1:
        settle(tmp_path, global_pool="token")
    torch.save({"model": module.state_dict()}, tmp_path / "pytorch_model.bin")
    pictures = torch.randn((2, 3, 32, 48), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        want = module(pictures).numpy()
    model = package.from_pretrained("dinov3", tmp_path)
    got = np.stack([forward(model, each).logits for each in pictures.numpy()])
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-5 * np.abs(want).max())
    plain = package.from_pretrained("dinov3", tmp_path, without_head=True)
    assert forward(plain, pictures[0].numpy()).logits is None


def test_a_head_that_is_no_linear_layer(tmp_path):
    """It is refused, unless features are wanted; that of self-supervised training is only named."""
    module = Headed("head", 1)
    module.head = torch.nn.Sequential(
        torch.nn.Linear(48, 9), torch.nn.ReLU(), torch.nn.Linear(9, 5)
    )
    module.backbone.config.save_pretrained(tmp_path)
    torch.save(module.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(MappingError, match=r"does not use \(head.*`without_head`"):
        package.from_pretrained("dinov3", tmp_path)
    assert package.from_pretrained("dinov3", tmp_path, without_head=True).head is None


def test_what_was_taken_is_said(zoo, tmp_path):
    """The prefix, how many tensors were not used and of which groups, objects and files."""
    state = trained("dinov2").state_dict()
    extra = {f"dino_head.mlp.{i}.weight": torch.ones(48, 48) for i in range(3)}
    content = {"teacher": {f"backbone.{k}": v for k, v in state.items()} | extra}
    trained("dinov2").config.save_pretrained(tmp_path / "run")
    torch.save(content | EXTRAS["arguments"], tmp_path / "run" / "pytorch_model.bin")
    (tmp_path / "run" / "other.pth").write_bytes(b"")
    said = zoo("weights", "convert", tmp_path / "run", tmp_path / "out").err
    count = len(state) + 3
    assert "read as dinov2 from `teacher.backbone.dinov2.`" in said
    assert f"3 of {count} tensors were not used: teacher.dino_head.*" in said
    assert "args (argparse.Namespace)" in said and "not read: other.pth" in said


def test_one_of_several_is_named(tmp_path):
    state = trained("vit").state_dict()
    model = {"encoder_q": state, "encoder_k": {k: 2 * v for k, v in state.items()}}
    trained("vit").config.save_pretrained(tmp_path)
    torch.save(model, tmp_path / "pytorch_model.bin")
    with pytest.raises(WeightsError, match=r"2 networks.*`take`, of 'encoder_q.vit'"):
        package.from_pretrained("vit", tmp_path)
    one, two = (package.from_pretrained("vit", tmp_path, take=f"encoder_{x}") for x in "qk")
    np.testing.assert_array_equal(2 * one.cls_token, two.cls_token)


def assert_trained(kind, path):
    """It gives the logits of the network that was trained."""
    picture, want = of_transformers(kind)
    got = np.asarray(forward(package.from_pretrained(kind, path), picture).logits)
    assert np.abs(got - want).max() <= 2e-5 * np.abs(want).max()


def test_settings_beside_a_file_of_any_name(zoo, tmp_path):
    """They are followed, unless they are of another file or of another network."""
    own, other = tmp_path / "own", tmp_path / "other"
    for folder in (own, other):
        folder.mkdir()
        torch.save({"state_dict": trained("vit").state_dict()}, folder / "last.pth.tar")
    trained("vit").config.save_pretrained(own)
    assert_trained("vit", own / "last.pth.tar")
    (other / "config.json").write_text('{"architectures": ["LlamaForCausalLM"], "model_type": "x"}')
    said = zoo("export", "--weights", other / "last.pth.tar", code=2).err
    assert "no tensor tells how many heads" in said
    said = zoo("weights", "inspect", other / "last.pth.tar").err
    assert "config.json beside it is of LlamaForCausalLM, and had no effect" in said
    (own / "model.safetensors").write_bytes(b"")
    said = zoo("export", "--weights", own / "last.pth.tar", code=2).error
    assert "no tensor tells how many heads" in said


def adapted(folder):
    """A network with an adapter of peft's in it, saved without being merged."""
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


def in_whole_numbers(folder):
    """As a library saves what it has quantised."""
    state = trained("vit").state_dict()
    small = {key: value.to(torch.int8) for key, value in state.items() if value.ndim == 2}
    save_file(state | small, folder / "model.safetensors")
    trained("vit").config.save_pretrained(folder)


def several(folder):
    """What a trainer leaves of its steps."""
    for step in (10, 20):
        trained("vit").save_pretrained(folder / f"checkpoint-{step}")


def before_zip_archives(folder):
    path = folder / "pytorch_model.bin"
    torch.save({"a": torch.ones(1)}, path, _use_new_zipfile_serialization=False)


def of_another_kind(folder):
    config = transformers.BeitConfig(**SIZED, intermediate_size=80)
    transformers.BeitModel(config).save_pretrained(folder)


NOT_READ = {
    "an adapter that is not merged": (adapted, r"lora_A.*`merge_and_unload\(\)`"),
    "whole numbers": (in_whole_numbers, r"in int8\), .* save the network in floats"),
    "steps of a training": (several, r"name one of checkpoint-10, checkpoint-20"),
    "a library's own": (
        lambda folder: (folder / "tf_model.h5").write_bytes(b"\x89HDF"),
        r"tf_model\.h5 is a file of another library; save the network as safetensors",
    ),
    "before 1.6": (before_zip_archives, "PyTorch before 1.6.*to the current format"),
    "a module": (
        lambda folder: torch.save(torch.nn.Linear(2, 2), folder / "pytorch_model.bin"),
        r"objects \(torch\.nn\.modules\.linear\.Linear\).*could run code",
    ),
    "another network": (of_another_kind, "says that it is a BeitModel"),
    "parts of a training": (
        lambda folder: (folder / ".metadata").write_bytes(b""),
        "distributed checkpoint",
    ),
}


@pytest.mark.parametrize("kind", NOT_READ)
def test_a_folder_that_is_not_read(kind, tmp_path):
    """The sentence says what to do."""
    write, said = NOT_READ[kind]
    write(tmp_path)
    with pytest.raises(WeightsError, match=said):
        identify_checkpoint(GivenCheckpoint(tmp_path))


def test_own_weights_have_their_own_name_and_no_licence(zoo, tmp_path):
    """Unless somebody states one; two of a family go into one folder."""
    for name in ("cats", "dogs"):
        trained("vit").save_pretrained(tmp_path / name)
        zoo("export", "--weights", tmp_path / name, "--size", 40, "--out", "made")
    manifest = json.loads((zoo.here / "made" / "dogs-opset23.manifest.json").read_text())
    assert (manifest["model"], manifest["family"]) == ("dogs", "vit")
    assert manifest["licence"]["name"] == "not stated" and (zoo.here / "made" / "cats-opset23.onnx")
    own = ("--name", "birds", "--licence", "mit")
    zoo("export", "--weights", tmp_path / "cats", "--size", 40, *own)
    manifest = json.loads((zoo.here / "birds-opset23.manifest.json").read_text())
    assert manifest["licence"]["name"] == "MIT License"
    zoo("verify", "birds-opset23.onnx", "--weights", tmp_path / "cats")
