"""Reference tables and CSV as component models; what does not match is a located error."""

import math

import pytest

from einmap.components.reference_tables import models_from_reference_tables
from einmap.components.registry import Registry
from einmap.components.tables import models_from_csv
from einmap.errors import At, SpecError

SPAD = "system.PE[0..13].spad[1..1]"
READS = [{"name": "read", "arguments": {"data_delta": i, "address_delta": i}, "energy": 0.5 + i} for i in (0, 1)]
ERT = {
    "ERT": {
        "version": "0.4",
        "tables": [
            {"name": SPAD, "actions": [*READS, {"name": "leak", "energy": 0.002}]},
            {"name": "system.DRAM[1..1]", "actions": [{"name": "write", "arguments": {}, "energy": 512}]},
        ],
    }
}
ART = {"ART": {"version": "0.4", "tables": [{"name": SPAD, "area": 100}]}}
CSV = """component_class, action, width, tech_node, energy [pJ], latency [ns], area [um^2], leak
buffer, read, 64, 45nm, 10, 2, 100, 1e-6
buffer, read, 128, 45nm, 18, 2, 200, 2e-6
buffer, write, , 45nm, 12, , ,
"""


def test_reference_tables_are_models_by_path_and_by_name():
    registry = Registry(models_from_reference_tables(ERT, ART))
    spad = registry.estimate("spad", {"cycle_period": 1e-9}, {"read": {"data_delta": 0, "address_delta": 0}})
    assert spad.actions["read"].energy == pytest.approx(0.5e-12) and spad.actions["read"].throughput == math.inf
    assert (spad.area, spad.leak_power) == (pytest.approx(100e-12), pytest.approx(2e-6))
    unspecific = registry.estimate(SPAD, {}, {"read": {}})
    assert unspecific.actions["read"].energy == pytest.approx(1.5e-12)
    assert "highest energy" in " ".join(unspecific.warnings)
    summary = {"ERT_summary": {"table_summary": [{"name": "a.b", "actions": [{"name": "add", "average_energy": "2"}]}]}}
    assert models_from_reference_tables(summary)[0].estimate({}, {}).actions["add"].energy == 2e-12


@pytest.mark.parametrize(
    ("ert", "message"),
    [
        ([], "expected ERT"),
        ({"ERT": {"tables": {}}}, "ERT.tables: {}, expected a list"),
        ({"ERT": {"tables": [{"actions": []}]}}, r"ERT.tables\[0\]: .*with a name"),
        ({"ERT": {"tables": [{"name": "a"}]}}, r"tables\[0\].actions: None"),
        (
            {"ERT": {"tables": [{"name": "a", "actions": [{"name": "r", "energy": -1}]}]}},
            r"actions\[0\].energy: energy",
        ),
        ({"ERT": {"tables": [{"name": "a", "actions": []}] * 2}}, "two tables"),
    ],
)
def test_a_broken_reference_table_is_a_located_error(ert, message):
    with pytest.raises(SpecError, match=rf"t\.yaml: .*{message}|t\.yaml: {message}"):
        models_from_reference_tables(ert, energies_at=At("t.yaml"))


def test_an_area_without_energies_names_the_close_component():
    with pytest.raises(SpecError, match=r"did you mean 'x\.buffer'"):
        models_from_reference_tables(
            {"ERT": {"tables": [{"name": "x.buffer", "actions": []}]}},
            {"ART": {"tables": [{"name": "x.bufer", "area": 1}]}},
        )


def test_csv_rows_are_found_by_exact_match():
    (buffer,) = models_from_csv(CSV)
    estimate = buffer.estimate({"width": 64, "tech_node": 45}, {"read": {}, "write": {}, "READ": {"width": "128"}})
    assert estimate.actions["read"].energy == pytest.approx(10e-12)
    assert estimate.actions["READ"].energy == pytest.approx(18e-12)
    assert estimate.actions["write"].energy == pytest.approx(12e-12)
    assert estimate.actions["read"].latency == pytest.approx(2e-9)
    assert (estimate.area, estimate.leak_power) == (pytest.approx(1e-10), 1e-6)


def test_what_is_not_in_the_csv_is_an_error_with_the_nearest_rows():
    (buffer,) = models_from_csv(CSV, At("t.csv"))
    with pytest.raises(SpecError, match=r"no row for read with width 120(.|\n)*nearest rows: width 128, .*; width 64"):
        buffer.estimate({"width": 120, "tech_node": 45}, {"read": {}})
    with pytest.raises(SpecError, match="no row for read with width inf"):
        buffer.estimate({"width": "1e999", "tech_node": 45}, {"read": {}})
    with pytest.raises(SpecError, match="the area of buffer depends on width"):
        buffer.estimate({"tech_node": 45}, {"read": {"width": 64}})
    with pytest.raises(SpecError, match="needs tech_node, which is missing"):
        buffer.estimate({"width": 64}, {"read": {}})
    with pytest.raises(SpecError, match=r"no action 'raed'(.|\n)*did you mean 'read'"):
        buffer.estimate({"width": 64, "tech_node": 45}, {"raed": {}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no rows"),
        ("component_class,action,energy [kg]\n", r"t.csv:1: column 'energy \[kg\]', expected energy \[J"),
        ("component_class,energy\n", "t.csv:1: the header has no column action"),
        ("component_class,action,energy\na,b\n", "t.csv:2: 2 cells, expected 3"),
        ("component_class,action,energy\na,b,much\n", "t.csv:2: energy: energy is 'much'"),
        ("component_class,action,energy\na,b,\n", "t.csv:2: energy: action 'b' has no energy"),
        ("component_class,action,energy\n,b,1\n", "t.csv:2: component_class: the row has no"),
        ("component_class,action,energy\na,b,1\na,b,2\n", "t.csv:3: a b is also in line 2"),
    ],
)
def test_a_broken_csv_is_an_error_with_its_line(text, message):
    with pytest.raises(SpecError, match=message):
        models_from_csv(text, At("t.csv"))


def test_version_2_has_dictionaries_of_components_and_actions():
    tables = {"chip.spad": {"read": [{"arguments": {"x": 0}, "energy": 5}, {"arguments": {"x": 1}, "energy": 6}]}}
    tables["chip.mac"] = {"compute": {"arguments": None, "energy": 1}}
    spad, mac = models_from_reference_tables({"ERT": {"version": 0.2, "tables": tables}})
    assert spad.estimate({"x": 1}, {"read": {}}).actions["read"].energy == 6e-12
    assert (mac.aliases, mac.estimate({}, {}).actions["compute"].energy) == (("mac",), 1e-12)
    with pytest.raises(SpecError, match=r"ERT_summary of version 0.2 is not read"):
        models_from_reference_tables({"ERT_summary": {"version": 0.2, "ERT summaries": {}}})
