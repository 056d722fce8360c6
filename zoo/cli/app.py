"""The `zoo` command. `--help` lists its commands in the order in which a user needs them."""

from typing import Annotated

import typer

from zoo.cli import weights_command
from zoo.cli.bench_command import bench
from zoo.cli.build_command import build
from zoo.cli.command_options import OpsetCommand, examples
from zoo.cli.console import run_command_line, show_group_help
from zoo.cli.embed_command import embed_command
from zoo.cli.export_command import EXAMPLES, export
from zoo.cli.golden_command import golden_command
from zoo.cli.models_command import describe, list_command
from zoo.cli.pull_command import pull
from zoo.cli.push_command import push
from zoo.cli.run_command import run
from zoo.cli.search_command import search_command
from zoo.cli.show_command import show
from zoo.cli.site_command import site
from zoo.cli.verify_command import verify
from zoo.common.terminal import print_stdout
from zoo.common.versions import __version__

app = typer.Typer()


def show_version(is_requested: bool) -> None:
    """Print the version and exit if the option `--version` was given.

    `is_requested` is the value of the option.
    """
    if is_requested:
        print_stdout(__version__)
        raise typer.Exit


@app.callback(invoke_without_command=True, epilog=examples("zoo list", "zoo export dinov3_vits16"))
def zoo_command(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", metavar="", callback=show_version, help="Show the version.")
    ] = False,
) -> None:
    """Export vision models from JAX as verified ONNX files."""
    show_group_help(context)


BUILT = "artifacts/dinov3_vits16"
app.command("list", epilog=examples("zoo list", "zoo list dinov3 '*vitl*'"))(list_command)
app.command("info", epilog=examples("zoo info dinov3_vits16"))(describe)
app.command(cls=OpsetCommand, epilog=EXAMPLES)(export)
app.command(
    epilog=examples(
        "zoo verify dinov3_vits16-opset23.onnx",
        f"zoo verify {BUILT}",
        "zoo verify vits16.safetensors --weights PATH --onnx FILE",
    )
)(verify)
app.command(
    "golden", epilog=examples("zoo golden dinov3_vits16 vits16.safetensors --weights PATH")
)(golden_command)
app.command(
    epilog=examples(
        "zoo show dinov3_vits16 cat.png dog.png", "zoo show vit_digits-opset23.onnx 3.png"
    )
)(show)
app.command(epilog=examples("zoo run convnext_tiny cat.png", f"zoo run {BUILT} cat.png"))(run)
app.command(epilog=examples(f"zoo bench {BUILT}/onnx/*.onnx --threads 4"))(bench)
app.command(
    epilog=examples("zoo pull dinov3_vits16", "zoo pull dinov3_vits16 --variant fused,fp16")
)(pull)
app.command(epilog=examples("zoo build dinov3_vits16", "zoo build --filter 'dinov2_*' --jobs 4"))(
    build
)
app.command(
    "embed",
    epilog=examples(
        f"zoo embed photographs/ --model {BUILT} --out vectors.lance",
        f"zoo embed 'shards/{{000..099}}.tar' --model {BUILT} --precision int8 --out web.lance",
    ),
)(embed_command)
app.command(
    "search",
    epilog=examples(
        "zoo search cats.lance cat.png --out sheet.png",
        "zoo search cats.lance --text 'a cat in a box' --where 'width > 500'",
    ),
)(search_command)
app.command(epilog=examples("zoo site artifacts/* --out catalogue"))(site)
app.command(epilog=examples(f"zoo push {BUILT} --repo OWNER/dinov3_vits16"))(push)
app.add_typer(weights_command.app, name="weights")


def main() -> None:
    """Run the `zoo` command with the arguments of this process, and exit with its code."""
    run_command_line(app, "zoo")
