"""Options of timm's vision transformers, and those that no network of the zoo has.

`tests/golden/make_timm_options.py` wrote the facts in an environment with timm.
"""

import json
from pathlib import Path
from typing import Any

FACTS = json.loads((Path(__file__).parents[1] / "golden" / "timm_options.json").read_text())

BLOCKS = (
    *("ParallelThingsBlock", "ResPostBlock", "ParallelScalingBlock", "DiffParallelScalingBlock"),
)
"""Classes of blocks that the zoo does not have."""

OPTIONS_REFUSED: dict[str, tuple[Any, ...]] = {
    "block_fn": BLOCKS,
    "norm_layer": ("RmsNorm(eps=1e-05)", "rmsnorm"),
    "final_norm": (False,),
    "attn_layer": ("diff",),
    "scale_attn_norm": (True,),
    "pool_include_prefix": (True,),
}
"""Options, and their values that no network of the zoo has."""

OTHER_POOLS = ("max", "avgmax")
"""Pooling that the zoo does not have."""


def option_of(network: dict[str, Any]) -> str:
    """Return the option for which a network is refused, or an empty text if it is read."""
    if network["options"].get("global_pool") in OTHER_POOLS:
        return "global_pool"
    settings = FACTS["architectures"][network["settings"]["architecture"]]
    refused = (name for name, values in OPTIONS_REFUSED.items() if settings.get(name) in values)
    return next(refused, "")


def refusals(architecture: str) -> list[str]:
    """Return the options of an architecture that no network of the zoo has."""
    settings = FACTS["architectures"][architecture]
    return [name for name, values in OPTIONS_REFUSED.items() if settings.get(name) in values]


def option_rows() -> list[tuple[str, ...]]:
    """Return each option with the values that are read and the values that are refused."""
    read: dict[str, set[str]] = {}
    refused: dict[str, set[str]] = {}
    for network in FACTS["networks"]:
        for name, value in network["options"].items():
            option = "global_pool" if name == "reset" else name
            rows = refused if option_of(network) == option else read
            rows.setdefault(option, set()).add(f"`{value}`")
    for name, values in OPTIONS_REFUSED.items():
        refused.setdefault(name, set()).update(f"`{value}`" for value in values)
    return [
        (
            f"`{name}`",
            ", ".join(sorted(read.get(name, ()))),
            ", ".join(sorted(refused.get(name, ()))),
        )
        for name in dict.fromkeys((*read, *refused))
    ]


def architecture_rows() -> list[tuple[str, str]]:
    """Return the number of architectures that are read, and the refused ones for each option."""
    by_option: dict[str, list[str]] = {}
    for name in FACTS["architectures"]:
        by_option.setdefault(next(iter(refusals(name)), ""), []).append(f"`{name}`")
    read = by_option.pop("")
    listed = ((f"refused for `{option}`", ", ".join(names)) for option, names in by_option.items())
    return [("read", f"{len(read)} of {len(FACTS['architectures'])}"), *listed]
