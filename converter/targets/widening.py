"""Numbers in a wider dtype and back, so that their order stays."""

from __future__ import annotations

from typing import Any

import numpy as np

from converter.ir import Value, const, ops
from converter.ir.rewrite import Editor

LOWEST = np.iinfo(np.int64).min


def widened_value(editor: Editor, x: Value, dtype: Any, shifted: bool) -> Value:
    """In the wider dtype; uint64 in int64 is ``shifted``: moved down, so that its order stays."""
    wide = editor.convert(x, dtype)
    return editor.binary(ops.add, wide, const(LOWEST, np.int64)) if shifted else wide


def narrowed_value(editor: Editor, x: Value, dtype: np.dtype, shifted: bool) -> Value:
    """What ``widened`` made of it, undone."""
    whole = editor.binary(ops.sub, x, const(LOWEST, np.int64)) if shifted else x
    return editor.convert(whole, dtype)
