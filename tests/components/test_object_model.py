"""Python objects and classes as component models; what they lack is named."""

import pytest

from einmap.components.object_model import model_from_object
from einmap.components.registry import builtin
from einmap.errors import SpecError


class Latches:
    leak_power = 1e-6

    def __init__(self, width, tech_node=45e-9):
        self.width, self.tech_node = width, tech_node
        self.area = width * 1e-12

    def read(self, bits_per_action=1):
        return self.width * bits_per_action * 1e-15

    def write(self):
        return self.width * 2e-15, 1e-9

    def broken(self):
        raise KeyError("no table")

    def silent(self):
        return None


def test_a_class_is_a_model_with_its_arguments_as_attributes():
    model = model_from_object(Latches)
    estimate = model.estimate({"WIDTH": 8, "tech_node": "7nm"}, {"read": {"bits_per_action": 2}, "write": {"width": 4}})
    assert estimate.actions["read"].energy == pytest.approx(16e-15)
    assert estimate.actions["write"].energy == pytest.approx(8e-15)
    assert estimate.actions["write"].latency == pytest.approx(1e-9)
    assert (estimate.area, estimate.leak_power) == (8e-12, 1e-6)
    assert [attribute.name for attribute in model.attributes] == ["width", "tech_node"]


def test_an_object_is_used_as_it_is_and_a_model_too():
    assert model_from_object(Latches(3)).estimate({"width": 9}, {"read": {}}).actions["read"].energy == pytest.approx(
        3e-15
    )
    sram = builtin().find("SRAM")
    assert model_from_object(sram) is sram


@pytest.mark.parametrize(
    ("subject", "actions", "message"),
    [
        (Latches, {"read": {}}, "Latches needs width, which is missing"),
        (Latches(1), {"raed": {}}, "did you mean 'read'"),
        (Latches(1), {"broken": {}}, "broken of Latches failed: KeyError"),
        (Latches(1), {"silent": {}}, "silent of Latches gives no energy"),
        (type("NoArea", (), {"leak_power": 0, "read": lambda self: 1}), {"read": {}}, "NoArea has no area"),
        (type("Odd", (), {"area": -1, "leak_power": 0, "read": lambda self: 1}), {}, "area of Odd is -1"),
        (type("Idle", (), {"area": 0}), {}, "Idle has no method that is an action"),
        (42, {}, "component_model is 42, expected a Python object or class"),
    ],
)
def test_what_is_missing_is_named(subject, actions, message):
    with pytest.raises(SpecError, match=message):
        model_from_object(subject).estimate({}, actions)
