"""What a message says to write in place of a number with a unit."""

import pytest

from einmap import SpecError, loads
from einmap.expressions.arithmetic import evaluate
from einmap.expressions.quantities import unit_hint
from einmap.expressions.scope import Scope


@pytest.mark.parametrize(
    ("text", "words", "value"),
    [
        ("128KiB", "sizes are bits", 2**20), ("64 KB", "sizes are bits", 2**19), ("2MB", "sizes are bits", 2**24),
        ("8 bits", "sizes are bits", 8), ("1.5 Mb", "sizes are bits", 1.5 * 2**20),
        ("100 pJ", "energies are J", 100e-12), ("1e2pJ", "energies are J", 100e-12), ("1 GHz", "rates are 1/s", 1e9),
        ("5ns", "times are s", 5e-9), ("2 uW", "powers are W", 2e-6), ("3 mm^2", "areas are m^2", 3e-6),
        ("0.5um2", "areas are m^2", 0.5e-12),
    ],
)  # fmt: skip
def test_a_number_with_a_unit_is_told_without(text, words, value):
    hint = unit_hint(text)
    assert hint.startswith(f"numbers have no units here; {words}: ")
    assert evaluate(hint.rpartition(": ")[2], Scope()) == pytest.approx(value)


def test_bits_a_second_are_actions_of_some_bits():
    assert unit_hint("25.6GB/s").endswith("rates are actions/s: 25.6 * 1024**3 * 8 / bits_per_action")


@pytest.mark.parametrize("text", ["", "x", "128", "1 2", "J", "3 parsecs", "2 mJ^2", "1/s", "9" * 9_000 + "!"])
def test_other_texts_have_no_such_hint(text):
    assert unit_hint(text) is None


def test_a_slip_is_reported_once_though_a_class_needs_the_number_too():
    text = """
    arch:
      extra_attributes_for_all_component_models: {tech_node: 45nm}
      nodes:
      - !Memory {name: Main, size: inf, component_class: Dummy}
      - !Memory {name: Buffer, size: 128KiB, component_class: SRAM}
      - !Compute {name: MAC, component_class: Dummy}
    workload: {rank_sizes: {M: 4}, bits_per_value: {All: 8}, einsums: ["Z[m] = A[m]"]}
    """
    with pytest.raises(SpecError) as caught:
        loads(text).arch("Z")
    assert str(caught.value).count("is not an expression") == 1
    assert caught.value.at.path == 'arch.nodes[1] "Buffer".size'
    assert caught.value.hint == "numbers have no units here; sizes are bits: 128 * 1024 * 8"
