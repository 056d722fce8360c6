"""The `zoo` command: export, build, verify, bench, pull, push, list, info, weights, golden."""

from typing import Annotated

import typer

from zoo import registry
from zoo.bench_cli import bench
from zoo.build_cli import build
from zoo.console import run
from zoo.export import export
from zoo.golden_cli import app as golden_app
from zoo.hub_cli import pull, push
from zoo.verify_cli import verify
from zoo.weights_cli import app as weights_app

app = typer.Typer(add_completion=False, help="Vision models in JAX, exported to ONNX.")
app.command()(export)
app.command()(build)
app.command()(pull)
app.command()(push)
app.command()(verify)
app.command()(bench)
app.add_typer(weights_app, name="weights")
app.add_typer(golden_app, name="golden")


@app.command("list")
def list_models(
    pattern: Annotated[str | None, typer.Argument(help="Shell pattern, such as '*vitl*'.")] = None,
) -> None:
    """Show the models."""
    from zoo.tables import show_models

    show_models([registry.info(name) for name in registry.list_models(pattern)])


@app.command()
def info(model: Annotated[str, typer.Argument(help="Name or alias.")]) -> None:
    """Show one model: architecture, preprocessing, checkpoint, licence."""
    from zoo.tables import show_model

    show_model(registry.info(model))


def main() -> None:
    """Entry point of the console script."""
    run(app)
