"""What all tests share: how Hypothesis chooses its examples, how XLA compiles, how often
garbage is collected, what is parsed once, and what comes first."""

import functools
import gc
import os

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from einmap import gc_pause
from einmap.frontends.yaml.parsing import parse

# The same examples on every run and every machine, so that a failure is never a matter of luck.
settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    max_examples=20,
    suppress_health_check=[HealthCheck.too_slow],
)
# The same, and as many again and more: `make test-all`.
settings.register_profile("thorough", settings.get_profile("repeatable"), max_examples=100)
# New examples each time, to look for bugs: pytest --hypothesis-profile explore
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("repeatable")

# Programs of JAX run once in a test: to make them fast takes longer than they run. What they send is chosen before that.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

# What a search holds goes when it ends, without a collection: to look at it each 50,000 objects takes a tenth of the time.
gc.set_threshold(500_000, 20, 100)

PARSED_ONCE = 8_000
"""Characters of the longest text that is kept with its events: two thirds of what it takes to load a shipped example."""


def _events_once(events):
    """`events` of a text, kept: thousands of tests load the same few examples."""
    kept = functools.lru_cache(400)(lambda text: tuple(events(text)))

    def events_of(text):
        if len(text) > PARSED_ONCE:
            return events(text)
        try:
            return iter(kept(text))
        except Exception:  # raised where it is met, after what is wrong before it
            return events(text)

    return events_of


parse._events = _events_once(parse._events)

LONG = {"test_readme.py", "test_site.py", "test_tutorials.py"}
"""Files whose single tests take ten seconds and more: where one of these comes last, the other process waits for it."""


def pytest_collection_modifyitems(items):
    """Let what takes long come first."""
    items.sort(key=lambda item: item.path.name not in LONG)


def pytest_collection_finish():
    """Set aside what lives on, the tests themselves above all, as `set_aside` does for each call: it has no more to do.

    Nor are constants looked for in all sources: examples that repeat are the same after each change of a source.
    """
    gc.freeze()
    gc_pause._UNCOLLECTED.within = True
    if settings.get_current_profile_name() in ("repeatable", "thorough") and hasattr(providers, "_get_local_constants"):
        providers._get_local_constants = lambda: providers._local_constants
