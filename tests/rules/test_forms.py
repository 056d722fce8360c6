"""Rules keep the numbers of programs of `tests.forms`, wherever they apply."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from tests.forms.draw import LIMITS, Limits
from tests.forms.steps import FORMS
from tests.rules.formed import MAX_COMPARED, Record, compare_applications, draw_program
from tests.rules.prove import Case, Sweep
from tests.rules.test_rules import CASES, step_of

VARIANTS = (
    "legalize.bounds.bounds_rules strict",
    "layout.convolution.emit_convolution by patches",
    "layout.pooling.pooling_rules strict",
    "fuse.attention.shifts.shift_recogniser strict",
    "legalize.dtype_fallback.dtype_fallback_rules openvino max",
)
"""Cases in which a rule has other settings than in the first case of the same rule."""


def sweeps() -> Iterator[tuple[str, tuple[Sweep, Case]]]:
    """Yield each rule that is swept over a graph, with its tolerances, by name."""
    groups: dict[str, list[str]] = {}
    for key, (name, case) in CASES.items():
        if isinstance(case.apply or step_of(name), Sweep):
            groups.setdefault(name, []).append(key)
    for name, keys in groups.items():
        cases = [CASES[key][1] for key in keys]
        joint = replace(
            cases[0],
            units=max(max(case.units, case.units_of_forms) for case in cases),
            zeros=any(case.zeros for case in cases),
        )
        for key in (keys[0], *(key for key in VARIANTS if key in keys)):
            step = CASES[key][1].apply or step_of(name)
            assert isinstance(step, Sweep)
            case = replace(joint, finite=CASES[key][1].finite)
            yield name if key == keys[0] else key, (step, case)


SWEEPS = dict(sweeps())
assert {*VARIANTS} <= SWEEPS.keys()

FAMILIES: dict[str, tuple[str, ...]] = {
    "any": (),
    "indices": (
        *("gather", "gather_outside", "scatter", "scatter_apply", "take", "dynamic_slice"),
        *("dynamic_index_in_dim", "take_along_axis", "dynamic_update_slice", "masked_gather"),
        *("masked_writes", "masked_slices", "convert", "cumulative", "slice", "scale_to_bytes"),
    ),
    "extremes": ("extreme_argument", "top_k"),
    "windows": (
        *("convolution", "convolution_transpose_1", "convolution_transpose_2", "patches", "vmap"),
        *("reduce_window", "average_pool", "pool_gradient", "lax_pad", "transpose"),
    ),
    "products": (
        *("matmul", "matmul_batched", "matmul_vector", "matmul_right", "tensordot", "linear"),
        *("einsum", "dot_general", "transpose", "broadcast", "vmap", "reshape", "split", "stack"),
    ),
    "resizes": ("resize",),
    "updates": ("overwrite",),
    "softmax": ("softmax_shifted",),
    "networks": (
        *("overwrite", "softmax_shifted", "rotary_by_matrices", "rotary_of_parts"),
        *("attention_of_groups", "transpose", "where", "vmap", "reshape"),
    ),
}
"""The forms of the programs of a test. Few forms of one kind reach the rules for it sooner."""

REACHED = {
    "indices": (
        *("legalize.bounds", "layout.take", "legalize.deviations.COMMON_DEVIATIONS[scatter"),
    ),
    "extremes": (
        *("legalize.deviations.COMMON_DEVIATIONS[arg", "legalize.deviations.COMMON_DEVIATIONS[top"),
    ),
    "windows": ("layout.convolution", "layout.pooling.pooling_rules"),
    "products": (
        *("layout.broadcast", "layout.contraction"),
        *("canonicalize.reshaping.RULES[dot", "canonicalize.reshaping.RULES[einsum"),
    ),
    "resizes": ("fuse.named_calls", "fuse.resize", "layout.resize_layout", "legalize.support"),
    "updates": ("canonicalize.updates",),
    "softmax": ("fuse.attention.shifts",),
}
"""The rules without other programs, by their first letters, that the programs of a family reach."""

UNREACHED = {
    "canonicalize.RULES[name]",
    "canonicalize.RULES[optimization_barrier]",
    "canonicalize.RULES[pvary]",
    "canonicalize.RULES[sharding_constraint]",
    "canonicalize.identities.RULES[conv_general_dilated]",
    "canonicalize.identities.RULES[dim_as_value]",
    "canonicalize.identities.RULES[eq_to]",
    "canonicalize.identities.RULES[le_to]",
    "canonicalize.identities.RULES[lt_to]",
    "canonicalize.identities.RULES[reduce_window_max]",
    "canonicalize.identities.RULES[reduce_window_min]",
    "canonicalize.identities.RULES[reduce_xor]",
    "canonicalize.identities.RULES[scatter-max]",
    "canonicalize.identities.RULES[scatter-min]",
    "canonicalize.identities.RULES[scatter-mul]",
    "fuse.attention.rewrite_lowered_scores",
    "fuse.attention.share_repeated_heads",
    "fuse.group_norm.SPLIT_CHANNELS",
    "fuse.recurrent.RECURRENT",
    "fuse.rotary.PREFIX",
    "layout.channel_forms.AFTER_REORDERING[repeat]",
    "targets.onnxruntime.quirks.A padding in front of a pool of maxima[max_pool]",
    "targets.onnxruntime.quirks.Floats that overflow in eight bits[convert_element_type]",
    "targets.onnxruntime.quirks.Largest of many 64-bit integers[reduce_max]",
    "targets.onnxruntime.quirks.Largest of many 64-bit integers[reduce_min]",
    "targets.onnxruntime.quirks.PRelu of infinity[leaky_relu]",
    "targets.onnxruntime.quirks.The lowest integer divided by -1[div]",
    "targets.onnxruntime.quirks.Weights of a convolution that overflow with the factor after it"
    "[mul]",
}
"""Rules that no program of forms reaches."""

SELDOM = {
    "fuse.resampling.RESAMPLING",
    "canonicalize.RULES[copy]",
    "canonicalize.identities.RULES[abs]",
    "canonicalize.identities.RULES[and]",
    "canonicalize.identities.RULES[gt]",
    "canonicalize.identities.RULES[le]",
    "canonicalize.identities.RULES[min]",
    "canonicalize.identities.RULES[ne]",
    "canonicalize.identities.RULES[or]",
    "canonicalize.identities.RULES[pow]",
    "canonicalize.identities.RULES[reduce_and]",
    "canonicalize.identities.RULES[reduce_min]",
    "canonicalize.identities.RULES[reduce_or]",
    "canonicalize.identities.RULES[reduce_prod]",
    "canonicalize.identities.RULES[reduce_window_sum]",
    "canonicalize.identities.RULES[scatter-add]",
    "canonicalize.identities.RULES[select_and_scatter_add]",
    "canonicalize.reshaping.RULES[cummax]",
    "canonicalize.reshaping.RULES[cummin]",
    "canonicalize.reshaping.RULES[cumprod]",
    "canonicalize.reshaping.RULES[rev]",
    "canonicalize.slicing.RULES[pad]",
    "canonicalize.slicing.RULES[unstack]",
    "canonicalize.slicing.match_interleaving",
    "fuse.activations.SOFTPLUS_RULES[log1p]",
    "fuse.batch_norm.BATCH_NORM",
    "fuse.grid_sample.SAMPLE_CALL",
    "fuse.group_norm.GROUPED_CHANNELS",
    "fuse.group_norm.SINGLE_CHANNELS",
    "fuse.rotary.ROTARY",
    "fuse.softmax.LOG_SOFTMAX",
    "layout.chains.RULES[slice]",
    "layout.chains.SELECT[concatenate]",
    "layout.channel_forms.drop_ones_before_transpose",
    "layout.channel_forms.match_repeat",
    "layout.heads.attention_3d_of_transposed",
    "layout.heads.emit_rotary",
    "layout.norm_layout.BATCH_NORM_RULES[batch_norm]",
    "layout.norm_layout.emit_group_norm",
    "layout.pooling.match_average_pool",
    "legalize.deviations.ARITHMETIC_RULES[clamp]",
    "legalize.deviations.ARITHMETIC_RULES[div]",
    "legalize.deviations.ARITHMETIC_RULES[rem]",
    "legalize.deviations.COMMON_DEVIATIONS[group_norm]",
    "targets.onnxruntime.quirks.A mask for each head if heads share keys[attention]",
    "targets.onnxruntime.quirks.A negative padding that leaves no elements[pad]",
    "targets.onnxruntime.quirks.A padding in front of a pool of maxima[avg_pool]",
    "targets.onnxruntime.quirks.A padding in front of a pool of maxima[sum_pool]",
    "targets.onnxruntime.quirks.A resizing between transpositions[resize]",
    "targets.onnxruntime.quirks.GELU of a single number, as its formula[gelu]",
    "targets.onnxruntime.quirks.Padding that a mean counts[avg_pool]",
    "targets.onnxruntime.quirks.Padding that a mean counts[sum_pool]",
    "targets.onnxruntime.quirks.Product of integers beyond their range[reduce_prod]",
    "targets.onnxruntime.quirks.Remainder of 64-bit integers[rem]",
    "targets.onnxruntime.quirks.Sign of 64-bit integers[sign]",
    "targets.onnxruntime.quirks.Sum of integers beyond their range[reduce_sum]",
    "targets.onnxruntime.quirks.The remainder of the lowest integer by -1[rem]",
}
"""Rules that few programs of forms reach, so that a run may reach them or not."""

WITHOUT_DRAW = {key for key, (_, case) in SWEEPS.items() if case.draw is None}
FEW, MOST_PROGRAMS = 2, 100


def look_at(family: str, index: int, record: Record, most: int = MAX_COMPARED) -> None:
    """Look where rules apply in a program of a family, and compare ``most`` of the positions."""
    weights = {name: FORMS[name].weight for name in FAMILIES[family]}
    limits = Limits(weights=weights, steps=(1, 5)) if weights else LIMITS
    compare_applications(draw_program(Random(f"{family} {index}"), limits), SWEEPS, record, most)


def test_each_rule_without_other_programs_is_reached() -> None:
    prefixes = tuple(prefix for row in REACHED.values() for prefix in row)
    assert all(key.startswith(prefixes) for key in WITHOUT_DRAW)


@pytest.mark.parametrize("family", FAMILIES)
def test_rules_keep_numbers_of_forms(family: str) -> None:
    """Rules without other programs apply at least once."""
    prefixes, record = REACHED.get(family, ()), Record()
    missing = {key for key in WITHOUT_DRAW if prefixes and key.startswith(prefixes)}
    for index in range(MOST_PROGRAMS if missing else FEW):
        if index < FEW or missing - record.counts.keys():
            look_at(family, index, record)
            assert not record.complaints
            record.counts += Counter()  # drops zeros
    assert not missing - record.counts.keys()


@pytest.mark.full
@pytest.mark.parametrize("chunk", range(30))
@pytest.mark.parametrize("family", FAMILIES)
def test_rules_keep_numbers_of_many_forms(family: str, chunk: int) -> None:
    record = Record()
    for index in range(10):
        look_at(family, MOST_PROGRAMS + 10 * chunk + index, record)
    assert not record.complaints


@pytest.mark.full
def test_forms_reach_rules() -> None:
    """Programs of forms reach all rules but those that are listed, and none of `UNREACHED`."""
    record = Record()
    for family in FAMILIES:
        for index in range(200 if family == "any" else 40):
            look_at(family, index, record, most=0)
    reached = {key for key, count in record.counts.items() if count}
    assert reached.isdisjoint(UNREACHED)
    assert SWEEPS.keys() - reached - SELDOM == UNREACHED
    assert WITHOUT_DRAW.isdisjoint(UNREACHED | SELDOM)
