"""The public names, and where they are; each is imported when it is first used."""

from .bisection import bisect
from .errors import CheckError, ConverterError, SaveError, SpecError, Unsupported
from .explanation import Explanation, Obstacle, explain
from .export import to_onnx
from .files.join import join
from .files.save import save
from .fuse.match import NearMiss
from .fuse.registry import recogniser
from .judge.check import check
from .judge.runtime import run, session
from .judge.watch import Change
from .lower.build import Builder
from .metadata import Metadata
from .precision import emulate_bfloat16, lower_precision
from .result import Export, Report, report
from .scopes import expansion, extensions, rule
from .targets import TARGETS, AttentionLayout, find_target
from .targets.opsets import IR_VERSIONS, OPSETS
from .verdict import Difference, Errors, Verdict, compare

__all__ = [
    "IR_VERSIONS",
    "OPSETS",
    "TARGETS",
    "AttentionLayout",
    "Builder",
    "Change",
    "CheckError",
    "ConverterError",
    "Difference",
    "Errors",
    "Explanation",
    "Export",
    "Metadata",
    "NearMiss",
    "Obstacle",
    "Report",
    "SaveError",
    "SpecError",
    "Unsupported",
    "Verdict",
    "bisect",
    "check",
    "compare",
    "emulate_bfloat16",
    "expansion",
    "explain",
    "extensions",
    "find_target",
    "join",
    "lower_precision",
    "recogniser",
    "report",
    "rule",
    "run",
    "save",
    "session",
    "to_onnx",
]
