"""The `zoo` command: export, build, verify, bench, pull, push, list, info, weights, cache …"""

from typing import Annotated

import typer

from zoo.cli.bench import bench
from zoo.cli.build import build
from zoo.cli.cache import app as cache_app
from zoo.cli.console import run
from zoo.cli.export import export
from zoo.cli.golden import app as golden_app
from zoo.cli.hub import pull, push
from zoo.cli.verify import verify
from zoo.cli.weights import app as weights_app
from zoo.registry import lookup as registry

app = typer.Typer(add_completion=False, help="Vision models in JAX, exported to ONNX.")
app.command()(export)
app.command()(build)
app.command()(pull)
app.command()(push)
app.command()(verify)
app.command()(bench)
app.add_typer(weights_app, name="weights")
app.add_typer(cache_app, name="cache")
app.add_typer(golden_app, name="golden")


@app.command("list")
def list_models(
    pattern: Annotated[str | None, typer.Argument(help="Shell pattern, such as '*vitl*'.")] = None,
) -> None:
    """Show the models."""
    from zoo.cli.tables.results import show_models

    show_models([registry.info(name) for name in registry.list_models(pattern)])


@app.command()
def info(model: Annotated[str, typer.Argument(help="Name or alias.")]) -> None:
    """Show one model: architecture, preprocessing, checkpoint, licence."""
    from zoo.cli.tables.results import show_model

    show_model(registry.info(model))


def main() -> None:
    """Entry point of the console script."""
    run(app)
