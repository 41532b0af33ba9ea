"""`einmap components`: models, one model, and where the costs of an architecture come from."""

import json


def test_models_are_listed_and_shown(run):
    assert "SmartBufferSRAM" in run("components").out
    shown = run("components", "sram").out
    assert "tech_node" in shown
    assert "Horowitz" in shown
    unknown = run("components", "SRRAM")
    assert unknown.status == 2
    assert "did you mean 'SRAM'" in unknown.err


def test_each_number_of_an_architecture_has_its_source(run):
    text = run("components", "show", "eyeriss_components").out
    assert "eyeriss_components.yaml:" in text
    assert "Stillmaker" in text
    rows = json.loads(run("components", "show", "eyeriss_components", "--json").out)["costs"]
    assert {row["component"] for row in rows} >= {"DRAM", "GlobalBuffer", "MAC"}
    assert all(row["source"] for row in rows)
    missing = run("components", "show")
    assert missing.status == 2
    assert "needs the files" in missing.err
