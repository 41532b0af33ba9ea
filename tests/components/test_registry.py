"""Models by name, and attributes as people write them."""

import re

import pytest

from einmap.components.base import ActionCost, Attribute, Estimate, FormulaModel
from einmap.components.registry import Registry
from einmap.errors import SpecError

CALLS = []


def price(values):
    CALLS.append(values)
    energy = values.number("width") * values.number("tech_node")
    return Estimate(0.0, 0.0, {"read": ActionCost(energy, 1e9, "s")}, "s")


ATTRIBUTES = (
    Attribute("width", "bits", "bits", least=1, most=64, aliases=("datawidth",)),
    Attribute("tech_node", "m", "node", 45e-9, aliases=("technology",)),
)
REGISTRY = Registry([FormulaModel("SmallMemory", "memory", "s", ATTRIBUTES, ("read",), price, ("small",))])


@pytest.mark.parametrize("node", ["65nm", "65 nm", 65, 65e-9, "65e-9", "6.5e-8 m"])
def test_a_node_is_read_however_it_is_written(node):
    estimate = REGISTRY.estimate("small-memory", {"datawidth": 2, "technology": node}, {"read": {"width": 4}})
    assert estimate.actions["read"].energy == pytest.approx(4 * 65e-9)


def test_a_model_is_asked_once_for_a_distinct_component():
    first = REGISTRY.estimate("SMALL", {"width": 7}, {})
    asked = len(CALLS)
    assert REGISTRY.estimate("small", {"width": 7}, {}) is first and len(CALLS) == asked


@pytest.mark.parametrize(
    ("name", "attributes", "message"),
    [
        ("SmalMemory", {"width": 1}, "did you mean"),
        ("small", {}, "needs width .also written datawidth., which is missing"),
        ("small", {"width": 0}, "expected a finite number above 0"),
        ("small", {"width": True}, "expected a finite number above 0"),
        ("small", {"width": float("inf")}, "expected a finite number above 0"),
        ("small", {"width": [1]}, "expected a finite number above 0"),
        ("small", {"width": None}, "is missing"),
        ("small", {"width": "wide"}, "expected a finite number above 0"),
    ],
)
def test_impossible_input_is_an_error(name, attributes, message):
    with pytest.raises(SpecError) as error:
        REGISTRY.find(name).estimate(attributes, {})
    assert re.search(message, str(error.value), re.IGNORECASE)


def test_a_value_outside_the_range_of_the_source_is_a_warning():
    assert "outside the range" in REGISTRY.estimate("small", {"width": 65}, {}).warnings[0]
