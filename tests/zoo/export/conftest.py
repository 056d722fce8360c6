"""A folder that `zoo build` writes once for all tests that read it."""

import io
import json
from contextlib import redirect_stdout

import pytest

from zoo.cli.app import app
from zoo.cli.console import run_command


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The built folder of `vit_digits` and the record that the command printed.

    Tests must not change the folder.
    """
    out = tmp_path_factory.mktemp("built")
    variants = ("--variant", "fp32,fused,fp16,bf16,int8")
    command = ["build", "vit_digits", *variants, "--out", str(out), "--offline", "--json"]
    with redirect_stdout(io.StringIO()) as stdout:
        assert run_command(app, command) == 0
    (record,) = json.loads(stdout.getvalue())
    return out / "vit_digits", record
