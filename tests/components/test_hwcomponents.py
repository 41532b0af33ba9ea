"""Models of hwcomponents packages: found by their own discovery; what cannot be used is refused by name."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from einmap.components import hwcomponents
from einmap.errors import SpecError


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
    code = "import sys, einmap, einmap.components.hwcomponents; print('hwcomponents' in sys.modules)"
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
