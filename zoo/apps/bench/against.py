"""The same architecture in transformers, to be timed beside the files."""

from collections.abc import Sequence

from weights.parameters import parameter
from zoo.checkpoints.settings.library_configs import transformers_config, transformers_kind
from zoo.common.errors import BadRequest, MissingLibrary
from zoo.export.timing.inputs import Spec, draw_inputs
from zoo.export.timing.rounds import Task
from zoo.registry.lookup import info


def torch_task(model: str | None, specs: Sequence[Spec], threads: int) -> Task:
    """One run of transformers' model with random weights: float32, eager, on the CPU.

    **Raises** `MissingLibrary` without PyTorch or transformers, and `BadRequest` where nobody
    says which model it is, or transformers has none.
    """
    try:
        import torch
        from transformers import AutoConfig, AutoModel
    except ModuleNotFoundError as error:
        raise MissingLibrary(
            f"{parameter('against')} torch needs PyTorch and transformers: run `pip install torch "
            "transformers`."
        ) from error
    if not model or [spec.dtype for spec in specs] != ["float32"]:
        raise BadRequest(
            f"{parameter('against')} torch needs to know the architecture: let the first file be "
            "one that takes float32 pixel_values and has its manifest beside it or in the folder "
            "above."
        )
    config, names = info(model).config, info(model).class_names
    settings = transformers_config(config, names, key_bias=False)
    kind = settings.pop("model_type")
    torch.set_num_threads(threads)
    network = AutoModel.from_config(AutoConfig.for_model(kind, **settings)).train(False)
    (array,) = draw_inputs(specs).values()
    images = torch.from_numpy(array)
    asked = {"interpolate_pos_encoding": True} if transformers_kind(config).asks else {}

    def task() -> object:
        with torch.inference_mode():
            return network(images, **asked)

    return task
