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


def test_what_may_be_a_slip_is_noted_beside_the_costs(run, tmp_path):
    file = tmp_path / "arch.yaml"
    file.write_text(
        "arch:\n  nodes:\n"
        "  - !Memory {name: Main, size: inf, component_class: Dummy}\n"
        "  - !Compute {name: MAC, component_class: intmac, "
        "extra_attributes_for_component_model: {tech_node: 45nm, widht: 8}}\n"
    )
    shown = run("components", "show", file)
    assert shown.status == 0
    assert "intmac (width 32 bits, 45 nm)" in " ".join(shown.out.split())
    assert "MAC: width is not given, priced for 32 bits" in shown.err
    assert "extra attribute 'widht' is not read by the model; did you mean 'width'?" in shown.err
    assert run("components", "show", "eyeriss_components").err == ""
