"""A folder that `zoo build` writes once for all tests that read it."""

import io
import json
from contextlib import redirect_stdout

import pytest

from tests.command import call_zoo


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The built folder of `vit_digits` and the record that the command printed.

    Tests must not change the folder.
    """
    out = tmp_path_factory.mktemp("built")
    variants = ("--variant", "fp32,fused,fp16,bf16,int8")
    command = ["build", "vit_digits", *variants, "--out", str(out), "--offline", "--json"]
    with redirect_stdout(io.StringIO()) as stdout:
        assert call_zoo(*command) == 0
    (record,) = json.loads(stdout.getvalue())
    return out / "vit_digits", record
