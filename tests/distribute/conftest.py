"""Engines that all tests of a worker share: starting one takes seconds."""

import importlib.util

import pytest

from einmap.distribute.backends.jax.engine import JaxEngine, JaxOptions


@pytest.fixture(scope="session")
def engine():
    """JAX in one process with eight devices."""
    with _engine(JaxOptions(devices=8)) as engine:
        yield engine


@pytest.fixture(scope="session")
def pair():
    """JAX in two processes with four devices each."""
    with _engine(JaxOptions(devices=4, processes=2)) as engine:
        yield engine


def _engine(options):
    if importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is not installed")
    return JaxEngine(options)
