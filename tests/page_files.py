"""Write a file that the examples of a page read: `python -m tests.page_files NAME`."""

import sys
from pathlib import Path

import equinox as eqx

import zoo
from tests.references.classifiers import OWN
from tests.seeded import state_of
from tests.synthetic import save_pth


def write_checkpoint() -> None:
    """Write a checkpoint with the published file name and seeded numbers."""
    entry = zoo.info("dinov3_vits16")
    save_pth(Path(entry.checkpoint), state_of(entry.config, entry.namings[0], 0))


def write_eqx() -> None:
    """Write an Equinox file of a model with random weights."""
    eqx.tree_serialise_leaves("model.eqx", zoo.from_pretrained("dinov3_vits16", weights="random"))


def write_fine_tuned() -> None:
    """Write the folder of a fine-tuned model, as transformers saves it."""
    OWN["vit"](Path("finetuned"))


FILES = {"checkpoint": write_checkpoint, "eqx": write_eqx, "fine-tuned": write_fine_tuned}

if __name__ == "__main__":
    FILES[sys.argv[1]]()
