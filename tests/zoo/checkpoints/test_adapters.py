"""Adapters of peft on their base, compared with the network that peft itself merges."""

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
    """An adapter: the class of its network, and peft's settings for it."""

    network: str = "ViTForImageClassification"
    settings: dict[str, Any] = field(default_factory=dict)
    base_classes: tuple[str, ...] = CLASSES
    in_files: bool = False
    """Whether the adapter's tensors have the names that transformers 5 uses in files."""


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
"""Adapters by what is special about them."""


LATER = {"attention", "dinov2", "dinov3", "siglip", "a norm as a whole", "names of files"}
"""Adapters in the full tier, because other tests or adapters cover their kind."""


def saved(trained: Trained, folder: Path) -> torch.nn.Module:
    """Write the folders `base` and `lora`. Return the network that peft merges from both."""
    sizes = SIZED | ({"num_register_tokens": 4} if "DINOv3" in trained.network else {})
    model = seeded(trained.network, sizes)
    labels = dict(enumerate(trained.base_classes))
    base = type(model)(type(model.config)(**sizes, id2label=labels))
    has_same_head = trained.base_classes == CLASSES
    base_state = {
        k: v for k, v in model.state_dict().items() if has_same_head or "classifier" not in k
    }
    base.load_state_dict(base_state, strict=False)
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
    """Rename the tensors of a file from transformers 5's names in memory to those in files.

    In transformers 4, the names in memory are those in files.
    """
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
        pytest.param(trained, id=name, marks=pytest.mark.full if name in LATER else ())
        for name, trained in ADAPTERS.items()
    ],
)
def test_adapters_compute_what_peft_merges(trained, tmp_path):
    merged = saved(trained, tmp_path)
    side = merged.config.image_size
    pictures = np.random.default_rng(3).standard_normal((2, 3, side, side)).astype(np.float32)
    with torch.no_grad():
        theirs = merged(torch.from_numpy(pictures))
    expected = (theirs.logits if hasattr(theirs, "logits") else theirs.last_hidden_state).numpy()
    model = package.from_pretrained(
        {"Dinov2ForImageClassification": "dinov2", "DINOv3ViTModel": "dinov3"}.get(
            trained.network, "siglip2" if "Siglip" in trained.network else "vit"
        ),
        tmp_path / "lora",
        base=tmp_path / "base",
    )
    outputs = forward(model, pictures)
    actual = np.asarray(outputs.logits if hasattr(theirs, "logits") else outputs.last_hidden_state)
    # The largest measured difference is 3.1e-6, with jax 0.7.2.
    assert np.abs(actual - expected).max() < 4e-6 * np.abs(expected).max()


def test_commands_accept_an_adapter_with_its_base(zoo, tmp_path):
    saved(ADAPTERS["attention"], tmp_path)
    options = (tmp_path / "lora", "--base", tmp_path / "base")
    assert "PEFT adapter on its base" in zoo("weights", "inspect", *options).out
    zoo("weights", "convert", tmp_path / "lora", tmp_path / "hub", "--base", tmp_path / "base")
    from_adapter, from_converted = (
        package.from_pretrained("vit", path, **arguments)
        for path, arguments in ((options[0], {"base": options[2]}), (tmp_path / "hub", {}))
    )
    assert eqx.tree_equal(from_adapter, from_converted)


def test_a_file_of_an_adapter_is_verified(zoo, tmp_path):
    """Verification needs both checkpoints, which the manifest names. The base alone is refused."""
    saved(ADAPTERS["attention"], tmp_path)
    options = ("--weights", tmp_path / "lora", "--base", tmp_path / "base")
    zoo("export", *options, "--size", 40, "--out", "w.onnx")
    assert "passed" in zoo("verify", "w.onnx", *options).out
    assert "no base/model.safetensors in" in zoo("verify", "w.onnx", code=2).error
    for name in ("lora", "base"):
        (tmp_path / name).rename(zoo.here / name)
    assert "passed" in zoo("verify", "w.onnx").out
    for name in ("lora", "base"):
        (zoo.here / name).rename(tmp_path / name)
    error = zoo("verify", "w.onnx", "--weights", tmp_path / "base", code=2).error
    assert "made from other weights" in error
    assert "--weights" in zoo("verify", "w.onnx", *options[2:], code=2).error


CHANGES = {
    "DoRA": ({"use_dora": True}, "use_dora = True"),
    "what nobody knows yet": ({"use_another": True}, "use_another = True"),
    "another kind": ({"peft_type": "LOHA"}, "peft_type = 'LOHA'"),
    "a base that was changed": ({"init_lora_weights": "pissa"}, "init_lora_weights = 'pissa'"),
    "a regular expression": ({"alpha_pattern": {"[qv]_proj": 3}}, "alpha_pattern"),
    "no number": ({"lora_alpha": "much"}, "cannot be used"),
}
"""Changes of adapter_config.json that the zoo refuses, with the text of the error."""


@pytest.mark.parametrize("name", CHANGES)
def test_other_adapters_are_refused(name, tmp_path):
    changes, message = CHANGES[name]
    saved(ADAPTERS["attention"], tmp_path)
    path = tmp_path / "lora" / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(WeightsError, match=message):
        package.from_pretrained("vit", tmp_path / "lora", base=tmp_path / "base")


LAYER = "base_model.model.vit.layers.0.attention.q_proj.lora_"
TENSOR_CHANGES = {
    "no factors": (lambda state: {"a": torch.ones(1)}, "contains no LoRA factors"),
    "factors of an embedding": (
        lambda state: state | {"base_model.model.vit.lora_embedding_A": torch.ones(1)},
        "vit.lora_embedding_A, which is no factor of a linear layer",
    ),
    "one factor": (
        lambda state: {key: value for key, value in state.items() if key != f"{LAYER}B.weight"},
        "only one of two factors of vit.layers.0.attention.q_proj",
    ),
    "another rank": (
        lambda state: state | {f"{LAYER}B.weight": state[f"{LAYER}B.weight"][:, :3].contiguous()},
        "factors of vit.layers.0.attention.q_proj are ",
    ),
}
"""Changes of the tensors of an adapter that the zoo refuses, with the text of the error."""


@pytest.mark.parametrize("name", TENSOR_CHANGES)
def test_adapters_with_other_tensors_are_refused(name, tmp_path):
    change, message = TENSOR_CHANGES[name]
    saved(ADAPTERS["attention"], tmp_path)
    path = tmp_path / "lora" / "adapter_model.safetensors"
    state = load_file(path)
    assert f"{LAYER}A.weight" in state
    save_file(change(state), path)
    with pytest.raises(WeightsError, match=message):
        package.from_pretrained("vit", tmp_path / "lora", base=tmp_path / "base")


def test_a_folder_without_the_tensors_of_an_adapter_is_refused(tmp_path):
    saved(ADAPTERS["attention"], tmp_path)
    (tmp_path / "lora" / "adapter_model.safetensors").unlink()
    message = "has no adapter_model.safetensors and no adapter_model.bin"
    with pytest.raises(WeightsError, match=message):
        package.from_pretrained("vit", tmp_path / "lora", base=tmp_path / "base")


def test_another_base_is_refused(tmp_path):
    saved(ADAPTERS["attention"], tmp_path / "vit")
    saved(ADAPTERS["siglip"], tmp_path / "other")
    lora, base = tmp_path / "vit" / "lora", tmp_path / "other" / "base"
    with pytest.raises(WeightsError, match=r"is not what .* was trained on"):
        package.from_pretrained("vit", lora, base=base)
    with pytest.raises(WeightsError, match="holds no adapter"):
        package.from_pretrained("vit", base, base=base)
    with pytest.raises(WeightsError, match="`base`"):
        package.from_pretrained("vit", lora)
