"""A sweep that takes milliseconds: a given mapping of an 8 x 8 x 8 product, evaluated at each point."""

import pytest


@pytest.fixture
def small():
    """Buffer sizes x clock rates, as a dictionary; a test may change it."""
    return {
        "name": "small",
        "specs": ["simple", "matmul", "simple_matmul"],
        "define": {"M": 16, "K": 8, "N": 16},
        "axes": [
            {"name": "buffer", "path": "arch.GlobalBuffer.size", "values": ["64 * 8", "4 * 1024 * 8"]},
            {"name": "clock", "path": "arch.MAC.actions.compute.throughput", "values": [1e9, 2e9, 4e9]},
        ],
        "action": "evaluate",
    }
