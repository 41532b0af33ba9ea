"""Models of hwcomponents packages: found by their own discovery; what cannot be used is refused by name."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from einmap.components.installed import hwcomponents
from einmap.errors import SpecError
from einmap.spec.spec import Spec


class FakeADC:
    component_name = ("fake_adc", "FakeADC")

    def __init__(self, resolution):
        if resolution > 12:
            raise RuntimeError("CACTI failed with exit code 1")
        self.area, self.leak_power = resolution * 1e-10, 0.0

    def convert(self):
        return SimpleNamespace(energy=1e-12, throughput=1e9, latency=1e-9)

    def get_log_messages(self):
        return ["scaled by 2"]


class SRAM(FakeADC):
    component_name = "sram"


def fake(monkeypatch, discovery):
    finder = SimpleNamespace(installed_models=discovery, get_models_in_module=lambda module, ids: [])
    monkeypatch.setattr(hwcomponents, "require", lambda module, extra: finder)


def test_classes_are_models_with_aliases_and_log(monkeypatch):
    fake(monkeypatch, lambda: [FakeADC, SRAM])
    estimate = hwcomponents.installed_model("fake_adc").estimate({"resolution": 8}, {"convert": {}})
    assert (estimate.area, estimate.actions["convert"].throughput) == (8e-10, 1e9)
    assert "scaled by 2" in estimate.log
    with pytest.raises(SpecError, match=r"of SRAM failed: RuntimeError(.|\n)*built-in model SRAM needs no program"):
        hwcomponents.installed_model("SRAM").estimate({"resolution": 16}, {})


def of_cacti(name, rate):
    """A class of hwcomponents_cacti by that name, whose actions have this rate."""

    class Kind:
        area, leak_power = 1e-9, 1e-6

        def __init__(self, width, tech_node=45e-9):
            pass

        def read(self):
            return SimpleNamespace(energy=1e-12, throughput=rate, latency=1 / rate)

    Kind.__name__, Kind.__module__ = name, "hwcomponents_cacti"
    return Kind


@pytest.mark.parametrize(
    ("name", "rate", "node", "said"),
    [
        # rates of version 1.0.40; DDR3 has 0.8 Gbit/s and more on a pin, HBM3 6.4 at most
        ("DDR3", 33.3 * 2**20, 45e-9, "moves 34.9 Mbit/s on each pin of DDR3, 23 times less than JESD79-3"),
        ("LPDDR4", 50 * 2**20, 45e-9, "31 times less than JESD209-4"),
        ("HBM3", 6.4 * 8 * 2**30, 45e-9, "9 times more than JESD238"),
        ("HBM2", 2.4 * 2**30, 45e-9, ""),
        ("DDR3", 1.6e9, 45e-9, ""),
        ("SRAM", 1e9, 90e-9, ""),
        ("SRAM", 1e9, 130e-9, "makes those of 130 nm from 22 nm: energy times 2.43, area and time times 5.91"),
        ("Cache", 1e9, "180nm", "from 22 nm: energy times 2.86"),
    ],
)
def test_what_an_installed_model_gets_wrong_by_factors_stands_beside_its_numbers(monkeypatch, name, rate, node, said):
    fake(monkeypatch, lambda: [of_cacti(name, rate)])
    monkeypatch.setattr(hwcomponents, "_version", lambda package: "1.0.40")
    estimate = hwcomponents.installed_model(name).estimate({"width": 64, "tech_node": node}, {"read": {}})
    if not said:
        assert not (estimate.warnings or estimate.actions["read"].scaling or estimate.origin("area").scaling)
        return
    (warning,) = estimate.warnings
    assert said in warning
    assert estimate.actions["read"].scaling == estimate.origin("area").scaling == estimate.warnings
    # a later version is told of its rates, which are seen, and not of a rule that nobody has looked at
    monkeypatch.setattr(hwcomponents, "_version", lambda package: "1.1.0")
    later = hwcomponents.installed_model(name).estimate({"width": 64, "tech_node": node}, {"read": {}})
    assert bool(later.warnings) == (name not in ("SRAM", "Cache"))


def test_a_package_that_cannot_be_imported_is_refused_with_its_classes(monkeypatch, tmp_path):
    package = tmp_path / "hwcomponents_broken"
    package.mkdir()
    (package / "__init__.py").write_text("import hwcomponents_absent\n\nclass BrokenADC:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    fake(monkeypatch, lambda: 1 / 0)
    (refused,) = (r for r in hwcomponents.installed_models().refused if r.name == "hwcomponents_broken")
    assert "pip install hwcomponents-absent" in str(refused) and refused.classes == ("BrokenADC",)
    with pytest.raises(SpecError, match="BrokenADC of hwcomponents: hwcomponents_broken cannot be used"):
        hwcomponents.installed_model("BrokenADC")


def test_the_package_is_not_imported_unless_asked():
    code = "import sys, einmap, einmap.components.installed.hwcomponents; print('hwcomponents' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "False"


def test_every_installed_class_is_a_model_or_refused():
    pytest.importorskip("hwcomponents", reason="hwcomponents is not installed: pip install 'einmap[components]'")
    from hwcomponents import get_models

    installed = hwcomponents.installed_models()
    names = {model.name for model in installed.models} | {refused.name for refused in installed.refused}
    assert {kind.__name__ for kind in get_models()} <= names
    estimate = hwcomponents.installed_model("IsaacADC").estimate({"tech_node": 32}, {"convert": {}})
    assert estimate.actions["convert"].energy == pytest.approx(1.667e-12, rel=1e-3) and estimate.log


VALUES = {
    "tech_node": 45e-9, "cycle_period": 1e-9, "width": 64, "size": 64 * 2048, "depth": 2048, "n_bits": 8, "resolution": 8, "voltage": 0.9,
    "adder_width": 16, "multiplier_width": 8, "length": 1e-3, "capacitance": 1e-15, "unit_capacitance": 1e-15,
    "unit_resistance": 1e3, "rows": 128, "cols": 128, "cols_active_at_once": 16, "average_input_value": 0.5,
    "average_cell_value": 0.5, "read_pulse_width": 1e-9, "cell_config": "placeholder", "n_adder_tree_inputs": 4,
    "n_mux_inputs": 4, "pool_window": 4, "shift_register_n_bits": 16, "n_flags": 8, "entry_bits": 8,
    "speculation_enabled": True, "n_bits_per_output": 8, "n_center_entries": 8, "n_comparators": 4, "throughput": 1e8,
    "a_hist": [1, 2, 1], "b_bit_distribution": [0.5] * 8, "n_instances": 1,
}  # fmt: skip
"""A value for each argument that a class of hwcomponents needs."""


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_every_installed_class_prices_a_component_or_is_refused_by_name():
    pytest.importorskip("hwcomponents", reason="hwcomponents is not installed: pip install 'einmap[components]'")
    installed = hwcomponents.installed_models().models
    workload = {"rank_sizes": {"M": 4}, "bits_per_value": {"All": 8}, "einsums": ["Z[m] = A[m]"]}
    main = {"type": "Memory", "name": "Main", "size": "inf", "component_class": "Dummy"}
    refused = {}
    for model in installed:
        action = next(name for name in ("read", "compute", "write", *model.actions) if name in model.actions)
        needed = {one.name for one in model.attributes if not one.optional or one.name in ("width", "size", "depth")}
        extra = {name: VALUES[name] for name in needed}
        unit = {"type": "Compute", "name": "Unit", "actions": [{"name": action}, {"name": "compute", "energy": 0}]}
        unit["actions"][1] |= {"throughput": 1}
        unit["component_class"] = f"hwcomponents.{model.aliases[-1]}"
        if action == "compute":
            del unit["actions"][1]
        unit["extra_attributes_for_component_model"] = extra
        spec = Spec.from_dict(arch={"nodes": [main, unit]}, workload=workload)
        try:
            price = {a.name: a.energy for a in spec.arch("Z").components["Unit"].actions}
        except SpecError as error:
            assert "'Unit': " in str(error) and "component_class" in str(error) and model.name in str(error)
            refused[model.name] = str(error)
        else:
            assert price[action] >= 0
    assert len(installed) > 90, refused
    # what needs no program of its own is priced
    assert {"IsaacADC", "AladdinAdder", "LPDDR4", "AlbireoDAC"}.isdisjoint(refused)
    # CACTI and NeuroSim run, or it is said why they do not
    assert all("needs glibc 2.38" in text for name, text in refused.items() if name in ("SRAM", "Cache", "NANDGate"))
    assert all("glibc" not in text for text in refused.values() if "placeholder" in text)
