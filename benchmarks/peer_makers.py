"""One file by one exporter, in the environment of that exporter; `peers.py` starts it.

    PYTHON benchmarks/peer_makers.py torch|optimum|jax2onnx CHECKPOINT MODEL OPSET FILE [TASK]

TASK is what Optimum calls that which the network does, `feature-extraction` by default. CHECKPOINT
is a folder that transformers and the zoo load. The batch stays open where the exporter can leave it
open, and the images have 224 x 224 pixels.
"""

import sys
from pathlib import Path

SIDE = 224


def by_torch(checkpoint: Path, model: str, opset: int, file: Path, task: str) -> None:
    """torch.onnx.export with dynamo, as its documentation recommends."""
    import torch
    from transformers import AutoModel

    class Features(torch.nn.Module):
        """Plain tensors in place of transformers' record."""

        def __init__(self) -> None:
            super().__init__()
            self.network = AutoModel.from_pretrained(checkpoint)

        def forward(self, pixel_values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            found = self.network(pixel_values)
            return found.last_hidden_state, found.pooler_output

    torch.onnx.export(
        Features().train(False),
        (torch.zeros(2, 3, SIDE, SIDE),),
        file,
        input_names=["pixel_values"],
        dynamo=True,
        opset_version=opset,
        dynamic_shapes={"pixel_values": {0: torch.export.Dim("batch")}},
        external_data=False,
    )


def by_optimum(checkpoint: Path, model: str, opset: int, file: Path, task: str) -> None:
    """Its main function with its defaults, but without comparing.

    It leaves the number of colours open, which no file reads and our benchmark does not guess.
    """
    import onnx
    from optimum.exporters.onnx import main_export

    main_export(
        str(checkpoint),
        file.parent,
        task=task,
        opset=opset,
        do_validation=False,
        library_name="transformers",
    )
    written = onnx.load(file.parent / "model.onnx")
    for each in written.graph.input:
        if each.name == "pixel_values":
            each.type.tensor_type.shape.dim[1].dim_value = 3
    onnx.save(written, file)


def by_jax2onnx(checkpoint: Path, model: str, opset: int, file: Path, task: str) -> None:
    """Of the zoo's own network, which is plain Equinox."""
    import jax
    import onnx
    from jax2onnx import to_onnx

    import zoo

    network = zoo.from_pretrained(model, checkpoint)
    made = to_onnx(
        lambda x: tuple(jax.tree.leaves(jax.vmap(network)(x))),
        inputs=[("B", 3, SIDE, SIDE)],
        opset=opset,
    )
    onnx.save(made, file)


def main() -> None:
    exporter, checkpoint, model, opset, file, *task = sys.argv[1:]
    made = {"torch": by_torch, "optimum": by_optimum, "jax2onnx": by_jax2onnx}[exporter]
    made(Path(checkpoint), model, int(opset), Path(file), *(task or ["feature-extraction"]))


if __name__ == "__main__":
    main()
