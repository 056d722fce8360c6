"""Compute golden outputs with a reference, and compare models in JAX and ONNX files with them."""

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
from weights.mapping import plan, source_shapes
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
from zoo.checkpoints.convert import naming_to_write, write_folder
from zoo.checkpoints.load import LoadedWeights, model_shapes, open_weights
from zoo.checkpoints.pretrained import find_entry
from zoo.checkpoints.settings.library_configs import transformers_kind
from zoo.checkpoints.source import Choice
from zoo.common.errors import BadFile, BadRequest, MissingLibrary, first_line
from zoo.common.golden_file import Golden
from zoo.common.staging import replacing
from zoo.images.pictures import reduced_picture


def run_transformers(
    entry: ModelInfo, loaded: LoadedWeights, fed: Feeds, size: tuple[int, int]
) -> dict[str, NDArray[np.float32]]:
    """`last_hidden_state` and `pooler_output` of transformers' model, with the given periods, or
    what it answers in their place, for the arrays `fed` of pictures of a size (height, width).

    It loads the folder that `zoo weights convert` writes. Its ConvNeXt classifiers give the last
    map without a norm, which is no output of ours and left out.

    **Raises** `BadRequest` where transformers has no such model, interpolates positions by another
    rule or takes no such pictures, and `MissingLibrary` where it is not installed.
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
    kind = transformers_kind(config)
    check_positions(config, size)
    if kind.square_only and size[0] != size[1]:
        raise BadRequest(
            "transformers' class for this network takes square pictures: give a square."
        )
    items = items_for(naming, loaded.weights.arrays, model_shapes(config))
    with TemporaryDirectory() as folder:
        path = Path(folder) / entry.name
        how = entry.preprocessing.at(size)
        written = replace(entry, config=config, preprocessing=how)
        write_folder(path, items, written, Quiet())
        model = getattr(transformers, kind.auto_class).from_pretrained(path)
    model.train(False)
    for place in (PERIODS, f"backbone.{PERIODS}"):
        if place in loaded.weights.arrays:
            periods = torch.from_numpy(np.array(loaded.weights.arrays[place]))
            model.rope_embeddings.inv_freq = 1 / periods
    # Asked to, it takes positions for those of a square, which they need not be.
    is_own = size == config.native
    asked = (
        {"interpolate_pos_encoding": True} if kind.interpolates_on_request and not is_own else {}
    )
    with torch.no_grad():
        result = model(**{name: torch.from_numpy(each) for name, each in fed.items()}, **asked)
    if kind.output_names:
        return {name: result[name].numpy() for name in kind.output_names}
    tokens = result.last_hidden_state
    pooled = result.pooler_output if kind.has_same_pooler else tokens[:, 0]
    outputs = {"last_hidden_state": tokens.numpy()} if tokens.ndim == 3 else {}
    return outputs | {"pooler_output": pooled.numpy()}


def check_positions(config: Config, size: tuple[int, ...]) -> None:
    """Refuse a size at which transformers' positions are not the network's."""
    side = config.native
    same = with_interpolation(config, transformers_kind(config).antialias) == config
    if side is not None and not same and tuple(size) != side:
        raise BadRequest(
            "transformers interpolates these positions by another rule than they were trained "
            f"with, so that its outputs are the network's only at {side[0]} x {side[1]}: compute "
            f"them with another program, and name the .npz with {parameter('reference')}."
        )


GOLDEN_OUTPUTS = ("last_hidden_state", "pooler_output")
PARTS = ("x_norm_clstoken", "x_storage_tokens", "x_norm_patchtokens")
JAX_ATOL = 3e-5
ONNX_ATOL = 1e-4

Arrays = dict[str, NDArray[np.float32]]


def load_known(model: str, choice: Choice, progress: Progress) -> LoadedWeights:
    """Weights for a model of this name. **Raises** a `ZooError` or a `WeightsError`."""
    entry, choice = find_entry(model, choice)
    return open_weights(choice, entry, progress)


def make(
    entry: ModelInfo, loaded: LoadedWeights, images: Sequence[Image], reference: str
) -> Golden:
    """Run a reference on RGB images, or take over what one computed elsewhere (`reference` is an
    `.npz`)."""
    how, taken = entry.preprocessing, entry.config.pictures
    if taken is None:
        raise BadRequest(
            f"{entry.name} takes texts alone, and a golden file is of a picture: name a model of "
            "pictures."
        )
    fed = taken.make([*map(reduced_picture, images)], how, how.size)
    if reference == "transformers":
        outputs = run_transformers(entry, loaded, fed, how.size)
        name = f"transformers {version('transformers')}"
    elif reference.endswith(".npz"):
        outputs, name = read_outputs(Path(reference)), Path(reference).name
    else:
        raise BadRequest(
            f"{parameter('reference')} {reference}: write `transformers`, or name an .npz file."
        )
    digest = loaded.weights.provenance.sha256 or ""
    return Golden(entry.name, name, digest, fed, outputs)


def read_outputs(path: Path) -> Arrays:
    """Outputs from an `.npz` by transformers' names, or by those of Meta's code, as float32.

    **Raises** `BadFile`, or a `WeightsError` if it is no such file.
    """
    arrays = open_checkpoint(path).tensors
    names = GOLDEN_OUTPUTS if arrays.keys() >= set(GOLDEN_OUTPUTS) else PARTS
    if not all(name in arrays and arrays[name].dtype in FLOATS for name in names):
        expected = f"{' and '.join(GOLDEN_OUTPUTS)} nor {', '.join(PARTS)}"
        raise BadFile(f"{path} holds neither {expected} in floats: name another file.")
    parts = [arrays[name].read() for name in names]
    if names is GOLDEN_OUTPUTS:
        return dict(zip(GOLDEN_OUTPUTS, parts, strict=True))
    rows = np.concatenate([parts[0][:, None], *parts[1:]], axis=1)
    return {"last_hidden_state": rows, "pooler_output": parts[0]}


def check_jax(golden: Golden, loaded: LoadedWeights) -> dict[str, float]:
    """Largest absolute difference of the model in JAX, by output. **Raises** `BadFile`."""
    if (named := tuple(golden.fed)) != loaded.config.takes:
        inputs = " and ".join(named)
        raise BadFile(
            f"its input is {inputs}, which the model does not take: compare with "
            f"{parameter('onnx')}."
        )
    model = bind(abstract(loaded.config), loaded.weights.arrays)
    run = partial(eqx.filter_jit(batched), outputs=tuple(golden.outputs))
    return differences(golden, run(model, *map(jnp.asarray, golden.fed.values())))


def check_onnx(golden: Golden, file: Path, provider: str) -> dict[str, float]:
    """Largest absolute difference of an exported file, by output. **Raises** `BadFile`, or
    `BadRequest` for a provider that is not there."""
    from zoo.common.runtime import ERRORS, check_provider, session

    check_provider(provider)
    try:
        outputs = converter.run(session(file, provider), [*golden.fed.values()])
    except ERRORS as error:
        raise BadFile(
            f"{file} does not run on the golden file's input ({first_line(error)}): name the file "
            "of this model."
        ) from error
    return differences(golden, outputs)


def differences(golden: Golden, got: dict[str, Any]) -> dict[str, float]:
    """NaN where there is one: a comparison with a limit then fails. **Raises** `BadFile`."""
    if lost := sorted(golden.outputs.keys() - got.keys()):
        raise BadFile(f"only the golden file has {', '.join(lost)}: compare what gives that, too.")
    return {
        name: float(np.abs(np.asarray(got[name]) - expected).max())
        for name, expected in golden.outputs.items()
    }


def make_checkpoint(entry: ModelInfo, path: Path, seed: int, progress: Progress) -> None:
    """A seeded checkpoint in the layout of the published file."""
    first = entry.published[0]
    naming, leaves = first.naming, model_shapes(first.config)
    keys = source_shapes(plan(naming.rules, leaves))
    progress.stage(f"writing {path.name}", entry.parameters * 4)
    with replacing(path) as file:
        write_checkpoint(file, keys, seed, progress, naming.repeated(keys))
