"""Export a user's model in JAX as a verified ONNX file (`zoo.to_onnx`)."""

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from converter.opsets import DEFAULT_TARGET
from zoo.artifacts.choices import Input, Precision, Scales, Target
from zoo.common.errors import BadRequest, NotVerified
from zoo.common.options import SIZE, documented
from zoo.common.progress import progress_bar
from zoo.export import export_options as cli_options

if TYPE_CHECKING:
    from zoo.artifacts.schema import Manifest

Size = int | tuple[int, int] | Literal["dynamic"] | None


@documented
def to_onnx(
    model: Callable[..., Any],
    path: str | os.PathLike[str],
    *,
    opset: Annotated[int | None, cli_options.OPSET] = None,
    size: Annotated[Size, SIZE] = None,
    batch: Annotated[int | None, cli_options.BATCH] = None,
    precision: Annotated[Precision, cli_options.PRECISION] = "fp32",
    calibrate: Annotated[str | os.PathLike[str] | None, cli_options.CALIBRATE] = None,
    scales: Annotated[Scales, cli_options.SCALES] = "tensor",
    target: Annotated[Target, cli_options.TARGET] = DEFAULT_TARGET,
    input: Annotated[Input, cli_options.INPUT] = "float32",
    layers: Annotated[Sequence[int] | str | None, cli_options.LAYERS] = None,
    outputs: Annotated[Sequence[str] | None, cli_options.OUTPUTS] = None,
    verify: Annotated[bool, cli_options.VERIFY] = True,
    keep_inexact: Annotated[bool, cli_options.KEEP_INEXACT] = False,
) -> "Manifest":
    """Write a model as an ONNX file and verify it in ONNX Runtime, as `zoo export` does.

    The model may be fine-tuned, cut (`eqx.tree_at(lambda m: m.blocks, model, model.blocks[:6])`)
    or extended: an Equinox module of your own that holds one network of the zoo, takes one image
    `[3, height, width]` and returns arrays, in any tuple or dictionary. Initializers have the paths
    of the leaves as names, and outputs the names of fields or keys (`logits`; `output_0` without
    one). Parameters of every floating-point type are exported as float32, to which float64 is
    rounded.

    **Arguments:**

    - `model`: a model of `zoo.from_pretrained` or `zoo.create`, or a module that contains one.
    - `path`: the file to write, which ends in `.onnx`. The manifest `NAME.manifest.json` is written
      next to it, and above 2 GB the tensors in `NAME.onnx_data`. Earlier files are replaced.
    {options}

    **Returns** the manifest, as it is written next to the file.

    **Raises** `BadRequest` for an argument that is not valid, `BadOutput` if the path cannot be
    written, and `NotVerified` if the file differs too much from JAX. Nothing is written then.
    Parameters with NaN or infinite values lead to a Python warning.

    >>> model = zoo.from_pretrained("dinov3_vits16")
    >>> head = eqx.nn.Linear(384, 10, key=jax.random.key(0))
    >>> model = eqx.tree_at(lambda m: m.head, model, head, is_leaf=lambda leaf: leaf is None)
    >>> zoo.to_onnx(model, "classifier.onnx").only_variant.outputs[-1].name
    'logits'
    """
    from zoo.export.exporter import export_model
    from zoo.export.request import Options, plan_files
    from zoo.export.resources import check_resources
    from zoo.export.subject import to_subject

    out = Path(path)
    if out.suffix != ".onnx":
        raise BadRequest(f"{out} is not the name of an ONNX file: end it in .onnx.")
    subject = to_subject(model)
    for option, value in {"layers": layers, "outputs": outputs}.items():
        if value is not None and not subject.is_network:
            raise BadRequest(
                f"{option} {value}: this model returns what its author chose. Leave `{option}` "
                "out, or export the network inside of it."
            )
    if not (size is None or size == "dynamic" or isinstance(size, int | tuple)):
        raise BadRequest(f"size {size!r} is not valid: give 224, (height, width) or 'dynamic'.")
    options = Options(
        opsets=() if opset is None else (opset,),
        size=(size, size) if isinstance(size, int) else size,
        batch=batch,
        layers=layers or (),
        outputs=outputs or (),
        input=input,
        precision=precision,
        calibrate=None if calibrate is None else Path(calibrate),
        scales=scales,
        target=target,
        out=out,
        force=True,
        keep_inexact=keep_inexact,
        verify=verify,
    )
    plan = plan_files(subject.entry, options)
    with progress_bar() as progress:
        check_resources(plan, progress)
        outcome = export_model(plan, subject, lambda: subject.weights.provenance, progress)
    if outcome.nonfinite:
        paths = ", ".join(outcome.nonfinite[:10])
        warnings.warn(f"there are NaN or infinite values in {paths}", stacklevel=2)
    if outcome.failed:
        raise NotVerified(f"{out} was not written, because it differs too much from JAX.")
    return outcome.manifests[0]
