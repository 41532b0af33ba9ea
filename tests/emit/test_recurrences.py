"""Emitted recurrences: loops in the order of time, values of the cascade, and what the model counts."""

import random

import pytest
from tests.emit.running import needs_compiler, problems, problems_in_c
from tests.random_specs.recurrences import valid_recurrence

import einmap


def with_results(seed):
    """A random mapping of a recurrence of which something is an output."""
    rng = random.Random(seed)
    while True:
        spec, cost = valid_recurrence(rng)
        if "Y" in spec.workload.producers:
            return spec, cost


def test_python_of_10_random_recurrences_moves_what_is_counted():
    for seed in range(10):
        spec, cost = with_results(seed)
        assert problems(einmap.emit(spec, "python"), spec, cost) == [], seed


@needs_compiler
def test_c_of_a_random_recurrence_moves_what_is_counted(tmp_path):
    spec, cost = with_results(3)
    text = einmap.emit(spec, "c")
    assert problems_in_c(text, spec, tmp_path, cost) == []
    assert "plain_R(t);" in text  # step by step, as the nest


@needs_compiler
@pytest.mark.slow
@pytest.mark.emit
def test_c_of_20_random_recurrences_moves_what_is_counted(tmp_path):
    for seed in range(100, 120):
        spec, cost = with_results(seed)
        assert problems_in_c(einmap.emit(spec, "c"), spec, tmp_path, cost) == [], seed
