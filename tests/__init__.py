"""Tests. Imported before any of them, and so before JAX."""

import atexit
import os
import shutil
import tempfile
from importlib.metadata import version

# Thousands of small functions are compiled, many of them in both workers and in the commands that
# are run, and most are called once: compile them once, and less thoroughly.
FLAGS = ["--xla_llvm_disable_expensive_passes=true", "--xla_backend_optimization_level=0"]
if tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 11):  # later ones do not know it
    FLAGS.append("--xla_cpu_use_fusion_emitters=false")
os.environ.setdefault("XLA_FLAGS", " ".join(FLAGS))
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="jax-cache-")
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    # One worker may read an entry that the other is still writing. JAX says so and compiles anew;
    # pyproject.toml has the same filter for the tests themselves, this one is for the commands.
    os.environ["PYTHONWARNINGS"] = "ignore:Error reading persistent compilation cache"
