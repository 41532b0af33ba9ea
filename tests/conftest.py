"""What all tests share: how Hypothesis chooses its examples, and how often garbage is collected."""

import gc

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

# Thousands of tests that are collected live on: to look at all of them again and again takes a tenth of the time.
gc.set_threshold(5_000, 20, 100)
