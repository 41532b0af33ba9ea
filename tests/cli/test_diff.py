"""`einmap diff`: mappings, architectures, whole specifications."""

import json

from einmap import evaluate, load

CHAIN = ("simple_matmul_chain_unfused", "simple_matmul_chain_fused", "--with", "simple", "--with", "matmul_chain")


def test_two_mappings_differ_in_nodes_and_in_cost(run):
    done = run("diff", *CHAIN)
    assert done.status == 0
    assert "removed  mapping nodes[0]" in done.out
    assert "MainMemory T1 write" in done.out


def test_json_has_totals_and_every_row_that_changed_with_its_ratio(run):
    found = json.loads(run("diff", *CHAIN, "--json").out)
    before, after = (evaluate(load("simple", "matmul_chain", name)) for name in CHAIN[:2])
    totals = {row["name"][0]: (row["before"], row["after"], row["ratio"]) for row in found["totals"]}
    assert totals["energy"] == (before.energy, after.energy, after.energy / before.energy)
    rows = {(row["kind"], *row["name"]): row["difference"] for row in found["rows"]}
    assert rows["actions", "T1", "MainMemory", "T1", "write"] == -32768
    assert all(rows.values())
    energies = [abs(row["difference"]) for row in found["rows"] if row["kind"] == "energy"]
    assert energies == sorted(energies, reverse=True)


def test_two_architectures_differ_in_fields_and_costs_are_not_compared(run):
    done = run("diff", "simple", "eyeriss")
    assert "arch.nodes.GlobalBuffer.size" in done.out
    assert "note: simple has no workload and no mapping: costs are not compared" in done.err


def test_an_architecture_that_the_mapping_fits_is_compared_in_cost(run, tmp_path):
    spec = load("simple")
    from einmap.frontends.yaml.spec import dump

    (tmp_path / "fast.yaml").write_text(dump(spec.set("arch.nodes.MAC.actions.compute.throughput", 2e9)))
    done = run("diff", "simple", tmp_path / "fast.yaml", "-w", "matmul", "-w", "simple_matmul")
    assert "arch.nodes.MAC.actions.compute.throughput" in done.out
    latency = next(line for line in done.out.splitlines() if line.split()[:1] == ["latency"])
    assert latency.split()[-1] == "0.5"


def test_a_side_that_cannot_be_evaluated_is_noted(run, tmp_path):
    (tmp_path / "bad.yaml").write_text("mapping:\n  nodes:\n  - !Compute {einsum: Z, component: MAC}\n")
    done = run("diff", "simple_matmul", tmp_path / "bad.yaml", "-w", "simple", "-w", "matmul")
    assert done.status == 0
    assert "cannot be evaluated, so that costs are not compared" in done.err
    assert "removed" in done.out


def test_equal_specifications_do_not_differ(run):
    assert "no difference in structure" in run("diff", "simple", "simple").out


def test_a_misspelt_name_is_refused(run):
    done = run("diff", "simpel", "simple")
    assert done.status == 2
    assert "did you mean 'simple'" in done.err


def test_a_small_dictionary_is_shown_whole(run, tmp_path):
    arch = """arch:
  nodes:
  - !Memory {name: M, size: inf, component_class: Dummy}
  - !Compute {name: MAC, component_class: Dummy%s}
"""
    (tmp_path / "a.yaml").write_text(arch % "")
    (tmp_path / "b.yaml").write_text(arch % ", extra_attributes_for_component_model: {width: 8}")
    assert "{width: 8}" in run("diff", str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")).out
