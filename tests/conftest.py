"""What all tests share: how Hypothesis chooses its examples, how XLA compiles, how often
garbage is collected, and what comes first."""

import gc
import os

from hypothesis import HealthCheck, settings

# The same examples on every run and every machine, so that a failure is never a matter of luck.
settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow],
)
# New examples each time, to look for bugs: pytest --hypothesis-profile explore
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("repeatable")

# Programs of JAX run once in a test: to make them fast takes longer than they run. What they send is chosen before that.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

# Thousands of tests that are collected live on: to look at all of them again and again takes a tenth of the time.
gc.set_threshold(5_000, 20, 100)

LONG = {"test_readme.py", "test_site.py", "test_tutorials.py"}
"""Files whose single tests take ten seconds and more: where one of these comes last, the other process waits for it."""


def pytest_collection_modifyitems(items):
    """Let what takes long come first."""
    items.sort(key=lambda item: item.path.name not in LONG)
