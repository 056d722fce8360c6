"""Golden numbers: what a reference makes of an image and a checkpoint, kept to compare with."""

from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

import converter
from weights import bind, open_checkpoint
from weights.mapping import plan, source_shapes
from weights.parameters import parameter
from weights.progress import Progress
from weights.synthetic import write_checkpoint
from weights.tensors import FLOATS
from zoo.architectures.builder import abstract, batched
from zoo.architectures.entry import ModelInfo
from zoo.checkpoints.load import Loaded, model_shapes, open_weights
from zoo.checkpoints.pretrained import find_entry
from zoo.checkpoints.source import Choice
from zoo.checkpoints.transformers import run_transformers
from zoo.common.errors import BadFile, BadRequest, first_line
from zoo.common.golden_file import Golden
from zoo.common.staging import replacing

GOLDEN_OUTPUTS = ("last_hidden_state", "pooler_output")
PARTS = ("x_norm_clstoken", "x_storage_tokens", "x_norm_patchtokens")
JAX_ATOL = 3e-5
ONNX_ATOL = 1e-4

Arrays = dict[str, NDArray[np.float32]]


def load_known(model: str, choice: Choice, progress: Progress) -> Loaded:
    """Weights for a model of this name. **Raises** a `ZooError` or a `WeightsError`."""
    entry, choice = find_entry(model, choice)
    return open_weights(choice, entry, progress)


def make(entry: ModelInfo, loaded: Loaded, values: NDArray[np.float32], reference: str) -> Golden:
    """Run a reference, or take over what one computed elsewhere (`reference` is an `.npz`)."""
    if reference == "transformers":
        outputs = run_transformers(entry, loaded, values)
        name = f"transformers {version('transformers')}"
    elif reference.endswith(".npz"):
        outputs, name = read_outputs(Path(reference)), Path(reference).name
    else:
        raise BadRequest(
            f"{parameter('reference')} {reference}: write `transformers`, or name an .npz file."
        )
    digest = loaded.weights.provenance.sha256 or ""
    return Golden(entry.name, name, digest, {"pixel_values": values}, outputs)


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


def check_jax(golden: Golden, loaded: Loaded) -> dict[str, float]:
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
    naming = entry.namings[0]
    keys = source_shapes(plan(naming.rules, model_shapes(entry.config_for(naming.name))))
    progress.stage(f"writing {path.name}", entry.parameters * 4)
    with replacing(path) as file:
        write_checkpoint(file, keys, seed, progress, naming.repeated(keys))
