"""Write `timm_nano.npz`: outputs of small networks of timm 1.0.31 (PyTorch 2.13).

    PYTHONPATH=. python tests/golden/make_timm_nano.py tests/golden/timm_nano.npz

The weights are `tests.synthetic.make_state` for the shapes of timm's state dict, and `state_sha256`
is their digest. Swin V2's pictures have sizes that are no multiples of its windows.
"""

import sys

import numpy as np
import timm
import torch

from tests.synthetic import digest, make_image, make_state

SEED = 6

SWIN = {
    **{"embed_dim": 12, "depths": (2, 2, 2), "num_heads": (2, 3, 4), "window_size": 4},
    **{"img_size": (40, 52), "mlp_ratio": 3.0, "pretrained_window_sizes": (3, 0, 2)},
}
DEIT = {"img_size": 64, "embed_dim": 48, "depth": 2, "num_heads": 3, "dynamic_img_size": True}

NETWORKS = {
    "swinv2_tiny_window8_256": (
        {**SWIN, "strict_img_size": False},
        ((40, 52), (64, 64), (36, 92)),
    ),
    "deit_tiny_distilled_patch16_224": (DEIT, ((64, 64), (48, 80))),
}


def compute_outputs(name: str) -> dict[str, np.ndarray]:
    """Return the outputs of a small network at every size."""
    settings, sizes = NETWORKS[name]
    model = timm.create_model(name, num_classes=7, **settings).eval()
    state = make_state({key: tuple(v.shape) for key, v in model.state_dict().items()}, SEED)
    model.load_state_dict({key: torch.from_numpy(value) for key, value in state.items()})
    arrays = {f"{name}/state_sha256": digest(state)}
    for height, width in sizes:
        image = torch.from_numpy(make_image(SEED, height, width)[None])
        with torch.no_grad():
            rows, logits = model.forward_features(image)[0], model(image)[0]
        size = f"{name}/{height}x{width}"
        arrays[f"{size}/last_hidden_state"] = rows.reshape(-1, rows.shape[-1]).numpy()
        arrays[f"{size}/logits"] = logits.numpy()
    return arrays


def main(target: str) -> None:
    arrays = {key: value for name in NETWORKS for key, value in compute_outputs(name).items()}
    np.savez_compressed(target, seed=SEED, **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
