"""`einmap evaluate`: the report, the JSON document, the options."""

import json
import subprocess
import sys

import pytest

from einmap import evaluate, load
from einmap.errors import Note
from einmap.model.cost import Cost

SIMPLE = ("simple", "matmul", "simple_matmul")


def test_the_report_says_what_limits_latency_where_energy_goes_and_how_full_memories_are(run):
    done = run("evaluate", *SIMPLE)
    assert (done.status, "error" in done.err) == (0, False)
    assert "limited by MAC" in done.out
    assert "Energy (µJ) by component and tensor" in done.out
    assert "GlobalBuffer    4%" in done.out
    assert "for k by 1" in done.out


def test_a_pipe_gets_no_colours_no_trailing_blanks_and_80_columns(run):
    out = run("evaluate", *SIMPLE).out
    assert "\x1b" not in out
    assert [line for line in out.splitlines() if line != line.rstrip() or len(line) > 80] == []


def test_json_is_one_document_with_the_numbers_of_the_library(run):
    done = run("evaluate", *SIMPLE, "--json")
    found = json.loads(done.out)
    assert found.pop("provenance")
    assert found == json.loads(json.dumps(evaluate(load(*SIMPLE)).to_dict()))


def test_infinities_are_null_in_json(run, monkeypatch):
    def endless(spec, **options) -> Cost:
        cost = evaluate(spec)
        return Cost(**{**vars(cost), "latency": float("inf"), "energy": float("nan")})

    monkeypatch.setattr("einmap.cli.commands.evaluate.evaluate", endless)
    done = run("evaluate", *SIMPLE, "--json")
    found = json.loads(done.out, parse_constant=pytest.fail)
    assert (found["latency"], found["energy"]) == (None, None)


def test_template_values_are_numbers_booleans_or_text(run):
    energy = {n: json.loads(run("evaluate", *SIMPLE, "-D", f"M={n}", "--json").out)["energy"] for n in (64, 128)}
    assert energy[128] > energy[64]
    layer = ("-D", "LAYER=conv2_2", "-D", "BITS=16")
    assert run("evaluate", "eyeriss", "resnet50_layer", "eyeriss_conv", *layer).status == 0


def test_the_counting_rules_can_be_chosen(run):
    assert json.loads(run("evaluate", *SIMPLE, "--semantics", "accelforge", "--json").out)["semantics"] == "accelforge"
    assert "counted as  accelforge" in run("evaluate", *SIMPLE, "--semantics", "accelforge").out


def test_strict_turns_violated_constraints_from_notes_into_errors(run, tmp_path):
    mapping = tmp_path / "mapping.yaml"
    mapping.write_text(
        "mapping: {nodes: [!Storage {component: MainMemory, tensors: [A, B, Z]}, !Temporal {rank_variable: m, "
        "tile_shape: 1}, !Temporal {rank_variable: n, tile_shape: 1}, !Temporal {rank_variable: k, tile_shape: 1}, "
        "!Compute {einsum: Z, component: MAC}]}"
    )
    lax = run("evaluate", "simple", "matmul", mapping)
    assert lax.status == 0
    assert "note: " in lax.err
    strict = run("evaluate", "simple", "matmul", mapping, "--strict")
    assert (strict.status, strict.out) == (2, "")
    assert "error: " in strict.err


def test_many_notes_are_cut_in_the_terminal_and_complete_in_json(run, monkeypatch):
    def noted(spec, **options) -> Cost:
        return Cost(**{**vars(evaluate(spec)), "notes": tuple(Note(f"remark {i}") for i in range(25))})

    monkeypatch.setattr("einmap.cli.commands.evaluate.evaluate", noted)
    done = run("evaluate", *SIMPLE, "--json")
    assert len(json.loads(done.out)["notes"]) == 25
    assert len(done.err.splitlines()) == 11
    assert done.err.splitlines()[-1].startswith("note: ... and 15 more")


def test_a_reader_that_leaves_early_gets_no_traceback():
    command = f"{sys.executable} -c 'from einmap.cli.main import main; main()' evaluate {' '.join(SIMPLE)} --json"
    done = subprocess.run(f"{command} | head -c 1", shell=True, capture_output=True, text=True, check=True)
    assert (done.stdout, "Error" in done.stderr) == ("{", False)


def test_output_that_knows_only_ascii_works():
    code = "from einmap.cli.main import main; main()"
    environment = {"PYTHONIOENCODING": "ascii", "PYTHONPATH": ":".join(sys.path), "COLUMNS": "80"}
    done = subprocess.run(
        [sys.executable, "-c", code, "evaluate", *SIMPLE], capture_output=True, text=True, env=environment, check=True
    )
    assert "#####" in done.stdout


EYERISS = ("eyeriss_components", "resnet50_layer", "eyeriss_conv", "-D", "LAYER=conv2_2", "-D", "BITS=16")


def test_each_row_of_energy_has_the_number_and_source_of_its_action(run):
    found = json.loads(run("evaluate", *EYERISS, "--json").out)
    costs = {(row["component"], row["action"], row["quantity"]): row for row in found["provenance"]}
    for row in found["actions"]:
        if row["action"] == "leak":
            assert costs[row["component"], None, "leak_power"]["source"]
        else:
            cost = costs[row["component"], row["action"], "energy"]
            assert row["count"] * cost["value"] == row["energy"]
            assert cost["source"].split(" (")[0] in (
                "DRAM",
                "SmartBufferSRAM",
                "Wire",
                "RegisterFile",
                "HorowitzIntMAC",
            )


def test_the_report_names_the_models_used_in_one_line_each(run):
    lines = run("evaluate", *EYERISS).out.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("Costs by models"))
    end = lines.index("", begin)
    models = [line for line in lines[begin + 1 : end] if not line.startswith("   ")]
    assert [line.split()[0] for line in models] == [
        "DRAM", "SmartBufferSRAM", "Wire", "RegisterFile", "HorowitzIntMAC"
    ]  # fmt: skip
    assert models[3].startswith("  RegisterFile for WeightSpad, InputSpad, PsumSpad: Timeloop's")
    prices = " ".join(" ".join(lines[lines.index(models[3]) + 1 : lines.index(models[4])]).split())
    assert prices.startswith("priced for WeightSpad: width 16 bits, 65 nm, size 3,584 bits; InputSpad: width 16 bits")
    assert lines[begin + 2] == "    priced for type DDR4"
    assert "Costs by models" not in run("evaluate", *SIMPLE).out
