"""Export one file with another exporter, in the environment of that exporter. `peers.py` starts
this program.

PYTHON benchmarks/peer_makers.py torch|optimum|jax2onnx CHECKPOINT MODEL OPSET FILE [TASK]

TASK is Optimum's name of the network's task, `feature-extraction` by default. CHECKPOINT is a
folder that transformers and the zoo can load. The batch size is symbolic if the exporter supports
that. Images have 224 x 224 pixels.
"""

import sys
from pathlib import Path

SIDE = 224


def export_with_torch(checkpoint: Path, model: str, opset: int, file: Path, task: str) -> None:
    """Export with torch.onnx.export and dynamo, as PyTorch's documentation recommends."""
    import torch
    from transformers import AutoModel

    class Features(torch.nn.Module):
        """Network that returns plain tensors instead of transformers' output class."""

        def __init__(self) -> None:
            super().__init__()
            self.network = AutoModel.from_pretrained(checkpoint)

        def forward(self, pixel_values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            outputs = self.network(pixel_values)
            return outputs.last_hidden_state, outputs.pooler_output

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


def export_with_optimum(checkpoint: Path, model: str, opset: int, file: Path, task: str) -> None:
    """Export with Optimum's main function and its defaults, but without its comparison.

    Optimum makes the number of colour channels symbolic. No runtime can plan such a file, so it is
    set to 3.
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
    exported = onnx.load(file.parent / "model.onnx")
    for graph_input in exported.graph.input:
        if graph_input.name == "pixel_values":
            graph_input.type.tensor_type.shape.dim[1].dim_value = 3
    onnx.save(exported, file)


def export_with_jax2onnx(checkpoint: Path, model: str, opset: int, file: Path, task: str) -> None:
    """Export the zoo's own network, which is plain Equinox."""
    import jax
    import onnx
    from jax2onnx import to_onnx

    import zoo

    network = zoo.from_pretrained(model, checkpoint)
    exported = to_onnx(
        lambda x: tuple(jax.tree.leaves(jax.vmap(network)(x))),
        inputs=[("B", 3, SIDE, SIDE)],
        opset=opset,
    )
    onnx.save(exported, file)


def main() -> None:
    exporter, checkpoint, model, opset, file, *task = sys.argv[1:]
    export = {
        "torch": export_with_torch,
        "optimum": export_with_optimum,
        "jax2onnx": export_with_jax2onnx,
    }[exporter]
    export(Path(checkpoint), model, int(opset), Path(file), *(task or ["feature-extraction"]))


if __name__ == "__main__":
    main()
