"""Adapters of peft on their base, judged by the numbers of what peft itself merges."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import peft
import pytest
import torch
from safetensors.torch import load_file, save_file

import zoo as package
from tests.references.classifiers import BREEDS, CLASSES, SIZED, seeded
from weights.errors import WeightsError

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")

forward = eqx.filter_jit(lambda model, pictures: jax.vmap(model)(pictures))

ATTENTION = ["q_proj", "v_proj"]
LINEAR = [*ATTENTION, "k_proj", "o_proj", "fc1", "fc2"]


@dataclass(frozen=True)
class Trained:
    """An adapter: on what network, and with which of peft's settings."""

    network: str = "ViTForImageClassification"
    settings: dict[str, Any] = field(default_factory=dict)
    base_classes: tuple[str, ...] = CLASSES
    in_files: bool = False
    """Whether layers are called as in transformers 4, and so as in files."""


ADAPTERS = {
    "attention": Trained(settings={"target_modules": ATTENTION, "modules_to_save": ["classifier"]}),
    "a base of other classes": Trained(
        settings={"target_modules": LINEAR, "modules_to_save": ["classifier"]}, base_classes=BREEDS
    ),
    "names of files": Trained(
        settings={"target_modules": LINEAR, "modules_to_save": ["classifier"]}, in_files=True
    ),
    "by the root of the rank": Trained(
        settings={"target_modules": LINEAR, "use_rslora": True, "lora_alpha": 5}
    ),
    "ranks and scales of layers": Trained(
        settings={
            "target_modules": LINEAR,
            "rank_pattern": {"q_proj": 2, "layers.1.mlp.fc1": 6},
            "alpha_pattern": {"v_proj": 11, "layers.0.attention.o_proj": 1},
        }
    ),
    "biases": Trained(settings={"target_modules": LINEAR, "bias": "all"}),
    "a convolution": Trained(settings={"target_modules": ["projection", "fc2"]}),
    "a norm as a whole": Trained(
        settings={"target_modules": ATTENTION, "modules_to_save": ["layernorm", "classifier"]}
    ),
    "dinov2": Trained("Dinov2ForImageClassification", {"target_modules": LINEAR}),
    "dinov3": Trained("DINOv3ViTModel", {"target_modules": ["q_proj", "down_proj"]}),
    "siglip": Trained("SiglipVisionModel", {"target_modules": ATTENTION}),
}


LATER = {"attention", "dinov2", "dinov3", "siglip", "a norm as a whole", "names of files"}
"""Those whose kind other tests or adapters have."""


def saved(trained: Trained, folder: Path) -> torch.nn.Module:
    """Write `base` and `lora`, and give what peft makes of both."""
    sizes = SIZED | ({"num_register_tokens": 4} if "DINOv3" in trained.network else {})
    model = seeded(trained.network, sizes)
    labels = dict(enumerate(trained.base_classes))
    base = type(model)(type(model.config)(**sizes, id2label=labels))
    same_head = trained.base_classes == CLASSES
    kept = {k: v for k, v in model.state_dict().items() if same_head or "classifier" not in k}
    base.load_state_dict(kept, strict=False)
    base.save_pretrained(folder / "base")
    settings = {"r": 4, "lora_alpha": 6, **trained.settings}
    adapted = peft.get_peft_model(model, peft.LoraConfig(**settings))
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in adapted.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.2)
    adapted.save_pretrained(folder / "lora")
    if trained.in_files:
        rename(folder / "lora" / "adapter_model.safetensors")
    return adapted.merge_and_unload().eval()


def rename(path: Path) -> None:
    """The names that transformers 4 has in memory, and 5 in files."""
    pairs = {
        "vit.layers.": "vit.encoder.layer.",
        "q_proj": "attention.query",
        "k_proj": "attention.key",
        "v_proj": "attention.value",
        "attention.o_proj": "attention.output.dense",
        "mlp.fc1": "intermediate.dense",
        "mlp.fc2": "output.dense",
    }
    renamed = {}
    for key, tensor in load_file(path).items():
        for new, old in pairs.items():
            key = key.replace(new, old)
        renamed[key] = tensor
    save_file(renamed, path)


@pytest.mark.parametrize(
    "trained",
    [
        pytest.param(each, id=name, marks=pytest.mark.full if name in LATER else ())
        for name, each in ADAPTERS.items()
    ],
)
def test_what_peft_merges(trained, tmp_path):
    merged = saved(trained, tmp_path)
    side = merged.config.image_size
    pictures = np.random.default_rng(3).standard_normal((2, 3, side, side)).astype(np.float32)
    with torch.no_grad():
        found = merged(torch.from_numpy(pictures))
    wanted = (found.logits if hasattr(found, "logits") else found.last_hidden_state).numpy()
    model = package.from_pretrained(
        {"Dinov2ForImageClassification": "dinov2", "DINOv3ViTModel": "dinov3"}.get(
            trained.network, "siglip2" if "Siglip" in trained.network else "vit"
        ),
        tmp_path / "lora",
        base=tmp_path / "base",
    )
    output = forward(model, pictures)
    got = np.asarray(output.logits if hasattr(found, "logits") else output.last_hidden_state)
    # 3.1e-6 at most of those that were measured, with jax 0.7.2.
    assert np.abs(got - wanted).max() < 4e-6 * np.abs(wanted).max()


def test_commands_take_both(zoo, tmp_path):
    saved(ADAPTERS["attention"], tmp_path)
    both = (tmp_path / "lora", "--base", tmp_path / "base")
    assert "PEFT adapter on its base" in zoo("weights", "inspect", *both).out
    zoo("weights", "convert", tmp_path / "lora", tmp_path / "hub", "--base", tmp_path / "base")
    merged, again = (
        package.from_pretrained("vit", path, **how)
        for path, how in ((both[0], {"base": both[2]}), (tmp_path / "hub", {}))
    )
    assert eqx.tree_equal(merged, again)


def test_a_file_of_an_adapter_is_verified(zoo, tmp_path):
    """By both checkpoints, which the manifest names, and not by the base alone."""
    saved(ADAPTERS["attention"], tmp_path)
    both = ("--weights", tmp_path / "lora", "--base", tmp_path / "base")
    zoo("export", *both, "--size", 40, "--out", "w.onnx")
    assert "passed" in zoo("verify", "w.onnx", *both).out
    assert "no base/model.safetensors in" in zoo("verify", "w.onnx", code=2).error
    for name in ("lora", "base"):
        (tmp_path / name).rename(zoo.here / name)
    assert "passed" in zoo("verify", "w.onnx").out
    for name in ("lora", "base"):
        (zoo.here / name).rename(tmp_path / name)
    said = zoo("verify", "w.onnx", "--weights", tmp_path / "base", code=2).error
    assert "made from other weights" in said
    assert "--weights" in zoo("verify", "w.onnx", *both[2:], code=2).error


CHANGES = {
    "DoRA": ({"use_dora": True}, "use_dora = True"),
    "what nobody knows yet": ({"use_another": True}, "use_another = True"),
    "another kind": ({"peft_type": "LOHA"}, "peft_type = 'LOHA'"),
    "a base that was changed": ({"init_lora_weights": "pissa"}, "init_lora_weights = 'pissa'"),
    "a regular expression": ({"alpha_pattern": {"[qv]_proj": 3}}, "alpha_pattern"),
    "no number": ({"lora_alpha": "much"}, "cannot be used"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_no_plain_adapter(name, tmp_path):
    changes, told = CHANGES[name]
    saved(ADAPTERS["attention"], tmp_path)
    place = tmp_path / "lora" / "adapter_config.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | changes))
    with pytest.raises(WeightsError, match=told):
        package.from_pretrained("vit", tmp_path / "lora", base=tmp_path / "base")


def test_a_base_that_is_another(tmp_path):
    saved(ADAPTERS["attention"], tmp_path / "vit")
    saved(ADAPTERS["siglip"], tmp_path / "other")
    lora, base = tmp_path / "vit" / "lora", tmp_path / "other" / "base"
    with pytest.raises(WeightsError, match=r"is not what .* was trained on"):
        package.from_pretrained("vit", lora, base=base)
    with pytest.raises(WeightsError, match="holds no adapter"):
        package.from_pretrained("vit", base, base=base)
    with pytest.raises(WeightsError, match="`base`"):
        package.from_pretrained("vit", lora)
