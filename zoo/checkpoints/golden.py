"""Compute golden outputs with a reference program, and compare models in JAX and ONNX files with
them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

import converter
from weights import bind, open_checkpoint
from weights.load import PERIODS
from weights.mapping import plan_leaves, source_shapes
from weights.parameters import parameter
from weights.progress import Progress, Quiet
from weights.synthetic import write_checkpoint
from weights.tensors import FLOATS
from weights.writers.items import items_for
from zoo.architectures.architecture import Config
from zoo.architectures.builder import abstract, batched
from zoo.architectures.entry import ModelInfo
from zoo.architectures.inputs import Feeds
from zoo.architectures.kinds import with_interpolation
from zoo.checkpoints.convert import naming_to_write, write_transformers_folder
from zoo.checkpoints.load import LoadedWeights, model_shapes, open_weights
from zoo.checkpoints.pretrained import find_entry
from zoo.checkpoints.settings.library_configs import find_transformers_class
from zoo.checkpoints.source import WeightsChoice
from zoo.common.errors import BadFile, BadRequest, MissingLibrary, first_line
from zoo.common.golden_file import Golden
from zoo.common.staging import replacing
from zoo.images.pictures import to_read_picture


def run_transformers(
    entry: ModelInfo, loaded: LoadedWeights, feeds: Feeds, size: tuple[int, int]
) -> dict[str, NDArray[np.float32]]:
    """Run a model in transformers on the arrays `feeds`, and return its outputs by name.

    They are `last_hidden_state` and `pooler_output`, or the outputs that the class of transformers
    has in their place. The model is loaded from the folder that `zoo weights convert` writes, and
    uses the rotary periods of the weights. ConvNeXt classifiers of transformers return the last map
    without a norm, which is not an output of the zoo and is left out.

    **Arguments:**

    - `entry`: registry entry of the model.
    - `loaded`: its weights and configuration.
    - `feeds`: preprocessed pictures, by the names of the model's inputs.
    - `size`: (height, width) of these pictures.

    **Raises** `BadRequest` if the model takes texts, or if transformers has no such model,
    interpolates positions by another rule or does not take such pictures. Raises `MissingLibrary`
    if PyTorch or transformers is not installed.
    """
    try:
        import torch
        import transformers
    except ModuleNotFoundError as error:
        raise MissingLibrary(
            "to compare with transformers, PyTorch and transformers are needed: "
            "run `pip install torch transformers`."
        ) from error
    if loaded.config.texts is not None:
        raise BadRequest(
            f"{entry.name} takes more than images: compute its outputs with another program, and "
            f"name the .npz with {parameter('reference')}."
        )
    config, naming = loaded.config, naming_to_write(entry, "huggingface").naming
    transformers_class = find_transformers_class(config)
    check_position_interpolation(config, size)
    if transformers_class.square_only and size[0] != size[1]:
        raise BadRequest(
            "transformers' class for this network takes square pictures: give a square."
        )
    items = items_for(naming, loaded.weights.arrays, model_shapes(config))
    with TemporaryDirectory() as folder:
        path = Path(folder) / entry.name
        preprocessing = entry.preprocessing.with_size(size)
        described_entry = replace(entry, config=config, preprocessing=preprocessing)
        write_transformers_folder(path, items, described_entry, Quiet())
        model = getattr(transformers, transformers_class.auto_class).from_pretrained(path)
    model.train(False)
    for leaf in (PERIODS, f"backbone.{PERIODS}"):
        if leaf in loaded.weights.arrays:
            periods = torch.from_numpy(np.array(loaded.weights.arrays[leaf]))
            model.rope_embeddings.inv_freq = 1 / periods
    # With this option transformers assumes that the learned positions form a square.
    is_native_size = size == config.native_size
    options = (
        {"interpolate_pos_encoding": True}
        if transformers_class.interpolates_on_request and not is_native_size
        else {}
    )
    with torch.no_grad():
        result = model(
            **{name: torch.from_numpy(array) for name, array in feeds.items()}, **options
        )
    if transformers_class.output_names:
        return {name: result[name].numpy() for name in transformers_class.output_names}
    tokens = result.last_hidden_state
    pooler_output = tokens[:, 0] if transformers_class.adds_pooler else result.pooler_output
    outputs = {"last_hidden_state": tokens.numpy()} if tokens.ndim == 3 else {}
    return outputs | {"pooler_output": pooler_output.numpy()}


def check_position_interpolation(config: Config, size: tuple[int, ...]) -> None:
    """Check that transformers computes the same positions as the network for pictures of this size.

    `size` is (height, width). Nothing is checked for a network without learned positions.

    **Raises** `BadRequest` if the size differs from the network's own and transformers interpolates
    learned positions by another rule, or if transformers has no class for the network.
    """
    native_size = config.native_size
    is_same_rule = with_interpolation(config, find_transformers_class(config).antialias) == config
    if native_size is not None and not is_same_rule and tuple(size) != native_size:
        raise BadRequest(
            "transformers interpolates these positions by another rule than they were trained "
            f"with, so that its outputs are the network's only at {native_size[0]} x "
            f"{native_size[1]}: compute them with another program, and name the .npz with "
            f"{parameter('reference')}."
        )


GOLDEN_OUTPUTS = ("last_hidden_state", "pooler_output")
"""Names of the outputs in a golden file and in transformers."""
META_OUTPUTS = ("x_norm_clstoken", "x_storage_tokens", "x_norm_patchtokens")
"""The parts of the same outputs by the names of Meta's code: class token, register tokens and patch
tokens."""
JAX_ATOL = 3e-5
"""Largest absolute difference of a model in JAX from golden outputs."""
ONNX_ATOL = 1e-4
"""Largest absolute difference of an ONNX file from golden outputs."""

Arrays = dict[str, NDArray[np.float32]]


def load_named_weights(name: str, choice: WeightsChoice, progress: Progress) -> LoadedWeights:
    """Return the weights of the model called `name`, with its configuration.

    **Raises** a `ZooError` or a `WeightsError` if the model or its weights are not found or do not
    fit each other.
    """
    entry, choice = find_entry(name, choice)
    return open_weights(choice, entry, progress)


def compute_golden(
    entry: ModelInfo, loaded: LoadedWeights, images: Sequence[Image], reference: str
) -> Golden:
    """Return golden numbers of a model: its inputs for these RGB images, and its outputs in a
    reference program.

    `reference` is `transformers`, which is run, or the path of an `.npz` file with outputs that
    another program computed. The images get the size of the entry's preprocessing.

    **Raises** `BadRequest` for another reference, and for a model that takes texts alone. Raises
    the errors of `run_transformers` and `read_outputs`.
    """
    preprocessing, pictures = entry.preprocessing, entry.config.pictures
    if pictures is None:
        raise BadRequest(
            f"{entry.name} takes texts alone, and a golden file is of a picture: name a model of "
            "pictures."
        )
    feeds = pictures.make([*map(to_read_picture, images)], preprocessing, preprocessing.size)
    if reference == "transformers":
        outputs = run_transformers(entry, loaded, feeds, preprocessing.size)
        name = f"transformers {version('transformers')}"
    elif reference.endswith(".npz"):
        outputs, name = read_outputs(Path(reference)), Path(reference).name
    else:
        raise BadRequest(
            f"{parameter('reference')} {reference}: write `transformers`, or name an .npz file."
        )
    digest = loaded.weights.provenance.sha256 or ""
    return Golden(entry.name, name, digest, feeds, outputs)


def read_outputs(path: Path) -> Arrays:
    """Read the outputs of a model from an `.npz` file, and return them as float32 by the names of
    transformers.

    In the file they have these names or those of Meta's code, whose three parts are joined.
    **Raises** `BadFile` if the file has neither, and a `WeightsError` if it is not an `.npz` file.
    """
    arrays = open_checkpoint(path).tensors
    names = GOLDEN_OUTPUTS if arrays.keys() >= set(GOLDEN_OUTPUTS) else META_OUTPUTS
    if not all(name in arrays and arrays[name].dtype in FLOATS for name in names):
        expected = f"{' and '.join(GOLDEN_OUTPUTS)} nor {', '.join(META_OUTPUTS)}"
        raise BadFile(f"{path} holds neither {expected} in floats: name another file.")
    parts = [arrays[name].read() for name in names]
    if names is GOLDEN_OUTPUTS:
        return dict(zip(GOLDEN_OUTPUTS, parts, strict=True))
    rows = np.concatenate([parts[0][:, None], *parts[1:]], axis=1)
    return {"last_hidden_state": rows, "pooler_output": parts[0]}


def check_jax(golden: Golden, loaded: LoadedWeights) -> dict[str, float]:
    """Run a model in JAX on the golden inputs. Return the largest absolute difference of each
    golden output.

    **Raises** `BadFile` if the model does not take these inputs or lacks one of the outputs.
    """
    if (input_names := tuple(golden.feeds)) != loaded.config.input_names:
        inputs = " and ".join(input_names)
        raise BadFile(
            f"its input is {inputs}, which the model does not take: compare with "
            f"{parameter('onnx')}."
        )
    model = bind(abstract(loaded.config), loaded.weights.arrays)
    run_model = partial(eqx.filter_jit(batched), outputs=tuple(golden.outputs))
    return largest_differences(golden, run_model(model, *map(jnp.asarray, golden.feeds.values())))


def check_onnx(golden: Golden, file: Path, provider: str) -> dict[str, float]:
    """Run an exported file on the golden inputs. Return the largest absolute difference of each
    golden output.

    `provider` is the execution provider of ONNX Runtime. The inputs are passed in the order of the
    golden file.

    **Raises** `BadFile` if the file does not run on these inputs or lacks one of the outputs,
    `BadRequest` if the provider is not available, and `OSError` if the file does not exist.
    """
    from zoo.common.runtime import ERRORS, check_provider, session

    check_provider(provider)
    try:
        outputs = converter.run(session(file, provider), [*golden.feeds.values()])
    except ERRORS as error:
        raise BadFile(
            f"{file} does not run on the golden file's input ({first_line(error)}): name the file "
            "of this model."
        ) from error
    return largest_differences(golden, outputs)


def largest_differences(golden: Golden, outputs: dict[str, Any]) -> dict[str, float]:
    """Return the largest absolute difference between each golden output and the output of the same
    name in `outputs`.

    It is NaN if an output has a NaN, so that a comparison with a limit fails. Outputs that are not
    golden are ignored. **Raises** `BadFile` if a golden output is missing in `outputs`.
    """
    if missing := sorted(golden.outputs.keys() - outputs.keys()):
        raise BadFile(
            f"only the golden file has {', '.join(missing)}: compare a file that has this output "
            "too."
        )
    return {
        name: float(np.abs(np.asarray(outputs[name]) - expected).max())
        for name, expected in golden.outputs.items()
    }


def write_random_checkpoint(entry: ModelInfo, path: Path, seed: int, progress: Progress) -> None:
    """Write a checkpoint of random numbers that has the tensors of a model's published file.

    `seed` determines the numbers. The file appears at `path` when it is complete, and replaces an
    existing file.
    """
    published = entry.published[0]
    naming, leaves = published.naming, model_shapes(published.config)
    keys = source_shapes(plan_leaves(naming.rules, leaves))
    progress.stage(f"writing {path.name}", entry.parameters * 4)
    with replacing(path) as file:
        write_checkpoint(file, keys, seed, progress, naming.find_copies(keys))
