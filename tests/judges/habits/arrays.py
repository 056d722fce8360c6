"""Short spellings of arrays for the tables."""

from collections.abc import Callable
from typing import Any

import numpy as np

Make = Callable[..., np.ndarray]


def _of(dtype: Any) -> Make:
    return lambda values: np.array(values, dtype)


f16, f32, f64 = _of(np.float16), _of(np.float32), _of(np.float64)
i8, i16, i32, i64 = _of(np.int8), _of(np.int16), _of(np.int32), _of(np.int64)
u8, u16, u32, u64 = _of(np.uint8), _of(np.uint16), _of(np.uint32), _of(np.uint64)
truth = _of(np.bool_)

INF, NAN = np.inf, np.nan
LOWEST = float(np.finfo(np.float32).min)
