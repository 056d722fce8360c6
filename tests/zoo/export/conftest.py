"""A folder that is built once."""

import io
import json
from contextlib import redirect_stdout

import pytest

from zoo.cli.app import app
from zoo.cli.console import run_command


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """`vit_digits`, not to be changed, and what the command printed."""
    place = tmp_path_factory.mktemp("built")
    variants = ("--variant", "fp32,fused,fp16,bf16,int8")
    command = ["build", "vit_digits", *variants, "--out", str(place), "--offline", "--json"]
    with redirect_stdout(io.StringIO()) as said:
        assert run_command(app, command) == 0
    (record,) = json.loads(said.getvalue())
    return place / "vit_digits", record
