"""What the standard's evaluator and OpenVINO are known to make of our files, and why.

A case is named by its table, itself and its opset; the reason is an entry of `docs/runtimes.md`.
"""

import onnx_ir as ir

from tests.judges.habits import Runtime

OUTER = "A scan whose body reads a value outside of it"
FROM_THE_END = "Scanning from the end"
GROUPS = "Transposed convolutions with several kernels a group"
NEW = "Operators of opset 26"
SHIFTS = "Shifting unsigned integers to the right"
COMPARED, MAXIMUM, EXP = "NaN compared", "NaN through a maximum", "NaN through exp"

KNOWN: dict[Runtime, dict[str, str]] = {
    "onnx.reference": {
        "control scan reversed 23": FROM_THE_END,
        "control scan without operands 23": "Scalars that a loop collects",
        "control scan reversed without operands 23": "Scalars that a loop collects",
        "control gradient of a scan 23": FROM_THE_END,
        "special values pow 23": "The square root of minus infinity as a power",
        "window groups, dilated input 23": GROUPS,
        "window gradient with groups 23": GROUPS,
        "window ConvTranspose2d groups 23": GROUPS,
    },
    "openvino": {
        "control scan of length zero 23": "A constant without elements",
        "control scan without carry 23": OUTER,
        "control scan constant output 23": "A scan that gives a constant",
        "control scan inside scan 23": OUTER,
        "control cond inside scan 23": OUTER,
        "elementwise reduce_precision 23": "Rounding to float16",
        "elementwise polyval 23": OUTER,
        **{
            f"elementwise {name} {opset}": SHIFTS
            for name in ("population_count", "clz", "shift")
            for opset in (18, 26)
        },
        "elementwise uint8 arithmetic 17": "Integers of 8 bits beyond their range",
        "elementwise uint8 arithmetic 23": "Integers of 8 bits beyond their range",
        "elementwise bitcast 26": NEW,
        "elementwise bitcast back 26": NEW,
        "special values max 23": MAXIMUM,
        "special values min 23": MAXIMUM,
        "special values relu 23": MAXIMUM,
        "special values compare 23": COMPARED,
        "special values exp 23": EXP,
        "special values pow 23": EXP,
        "special values erf_inv 23": MAXIMUM,
        "special values lgamma 23": "Doubles",
        "indexing filler is an input 23": "A padding with a number that is not a constant",
        "reduce int sum wraps 23": "64-bit integers",
        "reduce uint32 extremes 23": "Doubles",
        "reduce empty operand 23": "Extremes of nothing",
        "reduce cumprod 26": NEW,
        "reduce cumprod op 26": NEW,
        "reduce uint16 26": NEW,
        "reduce cummax nan 23": COMPARED,
        "reduce nan is last 23": COMPARED,
        "reduce two keys nan 23": COMPARED,
        "reduce lexsort 23": "Equals among the smallest",
        "window gradient with groups 23": "Two convolutions with the same kernels, the first one "
        "scaled",
    },
}


def ignored_attributes(model: ir.Model) -> bool:
    """Whether OpenVINO resizes in another way: it looks at neither of these attributes."""
    return any(
        node.op_type == "Resize"
        and any(
            name in node.attributes and node.attributes[name].as_int()
            for name in ("antialias", "exclude_outside")
        )
        for node in model.graph.all_nodes()
    )
