"""Sparseloop's `sparse_optimizations` and densities: what they become, and counts of Sparseloop's exercises.

Numbers are those of reference outputs of the Timeloop exercises, folder `sparseloop`.
"""

import pytest

from einmap import load
from einmap.errors import SpecError
from einmap.frontends.timeloop.read import read
from einmap.model.evaluate import evaluate

PRODUCT = """
problem:
  version: 0.4
  shape:
    name: MatrixMultiply
    dimensions: [M, N, K]
    data_spaces:
    - {name: A, projection: [[[M]], [[K]]]}
    - {name: B, projection: [[[N]], [[K]]]}
    - {name: Z, projection: [[[M]], [[N]]], read_write: True}
  instance:
    {M: 8, K: 8, N: 8, densities: {A: {distribution: fixed_structured, density: 0.25}, B: DENSITY}}
"""
MACHINE = """
architecture:
  version: 0.4
  nodes:
  - !Container {name: system, attributes: {technology: "45nm"}}
  - !Component
    name: BackingStorage
    class: smartbuffer_metadata
    attributes: {depth: 512, width: 32, datawidth: 8, metadata_storage_width: 4, metadata_datawidth: 4}
    sparse_optimizations:
      representation_format:
        data_spaces:
        - {name: A, ranks: [{format: UOP}, {format: CP}]}
        - {name: B, ranks: [{format: UOP}, {format: CP}]}
  - !Component
    name: Buffer
    class: storage
    subclass: regfile_metadata
    attributes: {depth: 128, width: 8, datawidth: 8, metadata_storage_width: 4, metadata_datawidth: 4}
    sparse_optimizations:
      representation_format: {data_spaces: [{name: B, ranks: [{format: UOP}, {format: CP}]}]}
      action_optimization:
      - {type: skipping, options: [{target: A, condition_on: [B]}]}
      - {type: skipping, options: [{target: B, condition_on: [A]}]}
      - {type: skipping, options: [{target: Z, condition_on: [A, B]}]}
  - !Component {name: mac, class: intmac, attributes: {multiplier_width: 8, adder_width: 16}}
"""
MAPPING = """
mapping:
- {target: Buffer, type: datatype, keep: [B, Z], bypass: [A]}
- {target: BackingStorage, type: temporal, factors: M1 N1 K1, permutation: MNK}
- {target: Buffer, type: temporal, factors: M8 N8 K8, permutation: MNK}
"""
ENERGIES = """
ERT:
  version: '0.4'
  tables:
  - {name: "system.BackingStorage[1..1]", actions: [{name: read, energy: 2.29}, {name: write, energy: 2.69},
      {name: metadata_read, energy: 0.37}]}
  - {name: "system.Buffer[1..1]", actions: [{name: read, energy: 1}, {name: write, energy: 2},
      {name: metadata_read, energy: 0.5}, {name: metadata_write, energy: 0.25}]}
  - {name: "system.mac[1..1]", actions: [{name: compute, energy: 0.315}]}
"""


def imported(folder, density="{distribution: fixed_structured, density: 0.5}", machine=MACHINE, **more):
    files = {"problem.yaml": PRODUCT.replace("DENSITY", density), "arch.yaml": machine, "mapping.yaml": MAPPING}
    files |= {f"{name}.yaml": text for name, text in more.items()}
    paths = []
    for name, text in files.items():
        paths.append(folder / name)
        paths[-1].write_text(text)
    return read(paths, define={})


def specified(folder, result):
    out = folder / "out"
    out.mkdir()
    for name, text in result.files.items():
        (out / name).write_text(text)
    return load(*(out / name for name in result.files))


def counted(cost):
    return {(r.component, r.tensor, r.action): r.count for r in cost.actions if r.count}


def test_the_product_of_two_sparse_matrices_counts_as_sparseloop_does(tmp_path):
    spec = specified(tmp_path, imported(tmp_path, energies=ENERGIES))
    cost = evaluate(spec)
    rows = counted(cost)
    values = {key: n * 4 if key[0] == "BackingStorage" else n for key, n in rows.items()}  # rows of 4 values there
    assert values["Buffer", "B", "read"] == 64
    assert values["Buffer", "B", "skipped_read"] == 192
    assert values["BackingStorage", "A", "read"] == 64  # A passes the buffer by: it is saved where it is read
    assert values["BackingStorage", "A", "skipped_read"] == 64
    assert values["Buffer", "Z", "skipped_write"] == 448
    assert rows["mac", None, "compute"] == cost.latency * 1e9 == 64
    # offsets (8 + 1 for each of 8 passes) and coordinates of 4 bits: a quarter of (9 + 32) * 8 is read
    assert rows["Buffer", "B", "metadata_read"] == 4 * (18 + 64)
    assert rows["Buffer", "B", "metadata_write"] == 4 * (9 + 32)
    of = {(r.component, r.tensor, r.action): r.energy for r in cost.actions}
    assert of["Buffer", "B", "metadata_read"] == pytest.approx((18 + 64) * 0.5e-12)
    assert of["BackingStorage", "A", "read"] == pytest.approx(16 * 2.29e-12)


def test_energies_of_actions_that_are_saved(tmp_path):
    """An action whose arguments are all 0 is idle: that is what a gated one takes, and a skipped one unless it is named."""
    reads = ", ".join(
        f"{{name: read, arguments: {{address_delta: {a}, data_delta: {d}}}, energy: {e}}}"
        for a, d, e in ((1, 1, 1), (0, 1, 0.6), (0, 0, 0.125))
    )
    energies = ENERGIES.replace("{name: read, energy: 1}", reads)
    rows = {
        (r.component, r.tensor, r.action): r
        for r in evaluate(specified(tmp_path, imported(tmp_path, energies=energies))).actions
    }
    assert rows["Buffer", "B", "read"].energy == pytest.approx(64e-12)
    assert rows["Buffer", "B", "skipped_read"].energy == pytest.approx(192 * 0.125e-12)
    assert rows["Buffer", "Z", "skipped_write"].energy == 0


def test_older_spelling_and_sections_say_the_same(tmp_path):
    """Version 0.3 has dashes, and a section of its own."""
    result = imported(tmp_path)
    bare = "\n".join(line for line in _without_sparse(MACHINE).splitlines())
    section = """
sparse_optimizations:
  targets:
  - name: BackingStorage
    representation-format:
      data-spaces:
      - {name: A, ranks: [{format: UOP}, {format: CP}]}
      - {name: B, ranks: [{format: UOP}, {format: CP}]}
  - name: Buffer
    representation-format: {data-spaces: [{name: B, ranks: [{format: UOP}, {format: CP}]}]}
    action-optimization:
    - {type: skipping, target: A, condition-on: [B]}
    - {type: skipping, target: B, condition-on: [A]}
    - {type: skipping, target: Z, condition-on: [A, B]}
"""
    other = imported(tmp_path, "0.5", machine=bare, sparse=section)
    assert other.files["sparsity.yaml"] == result.files["sparsity.yaml"]


def _without_sparse(machine):
    lines, inside = [], False
    for line in machine.splitlines():
        if line.startswith("    sparse_optimizations"):
            inside = True
        elif inside and not line.startswith("     "):
            inside = False
        if not inside:
            lines.append(line)
    return "\n".join(lines)


def test_densities_by_their_distribution(tmp_path):
    text = imported(tmp_path, "{distribution: hypergeometric, density: 0.5}").files["sparsity.yaml"]
    assert "densities: {A: {even: 0.25}, B: 0.5}" in text
    text = imported(tmp_path, "{distribution: banded, band_width: 2}").files["sparsity.yaml"]
    assert "band: [2, 2]" in text


def test_a_mask_is_named_beside_the_specification(tmp_path):
    result = imported(tmp_path, "{distribution: real-data, data_file_path: /home/workspace/masks/b.txt}")
    assert "file: b.txt" in result.files["sparsity.yaml"]
    assert any("b.txt beside the specification" in entry.reason for entry in result.left_out)


def test_without_optimizations_densities_say_nothing(tmp_path):
    result = imported(tmp_path, machine=_without_sparse(MACHINE))
    assert "sparsity.yaml" not in result.files
    assert {entry.key for entry in result.left_out} >= {"densities"}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("target: A,", "target: Q,", "'Q' is not a data space"),
        ("{type: skipping, options: [{target: A", "{type: jumping, options: [{target: A", "unknown optimization"),
        ("{format: UOP}", "{format: XYZ}", "unknown format 'XYZ'"),
    ],
)
def test_what_is_not_known_is_an_error_at_its_place(old, new, told, tmp_path):
    with pytest.raises(SpecError, match=told) as problem:
        imported(tmp_path, machine=MACHINE.replace(old, new, 1))
    assert problem.value.at.line


def test_a_density_above_one_is_an_error(tmp_path):
    with pytest.raises(SpecError, match="at most 1"):
        imported(tmp_path, "1.5")


def test_lanes_that_zeros_leave_free_are_packed(tmp_path):
    """Spatial skipping lets a mapping name more lanes than there are; each takes its time step."""
    fanout = "  - !Container {name: PE, spatial: {meshX: 4}}\n  - !Component {name: mac"
    machine = MACHINE.replace("  - !Component {name: mac", fanout).replace(
        "{type: skipping, options: [{target: B, condition_on: [A]}]}",
        "{type: skipping_spatial, target: B, condition_on: [A]}",
    )
    mapping = MAPPING.replace("factors: M8 N8 K8", "factors: M8 N8 K1")
    mapping += "- {target: PE, type: spatial, factors: K8}\n"
    (tmp_path / "a").mkdir()
    files = {"problem.yaml": PRODUCT.replace("DENSITY", "1"), "arch.yaml": machine, "mapping.yaml": mapping}
    for name, text in files.items():
        (tmp_path / "a" / name).write_text(text)
    result = read([tmp_path / "a" / name for name in files], define={})
    assert any("8 x 1 lanes" in note.text for note in result.notes)
    cost = evaluate(specified(tmp_path, result))
    assert counted(cost)["mac", None, "compute"] == 8 * 8 * 8 / 4


def test_files_of_earlier_versions_count_fills_and_metadata_as_these_do(tmp_path):
    older = """
architecture:
  version: 0.3
  subtree:
  - name: system
    local:
    - {name: BackingStorage, class: SRAM, attributes: {depth: 512, width: 32, datawidth: 8}}
    - {name: Buffer, class: SRAM, attributes: {depth: 128, width: 8, datawidth: 8}}
    - {name: mac, class: intmac, attributes: {datawidth: 8}}
"""
    section = (
        "sparse_optimizations: {targets: [{name: Buffer, action-optimization: "
        "[{type: skipping, target: Z, condition-on: [A, B]}]}]}"
    )
    for machine, metadata, fills in [(MACHINE, "share", "lanes"), (older, "share_all", "all")]:
        more = {} if machine == MACHINE else {"sparse": section}
        result = imported(tmp_path, machine=machine, **more)
        text = result.files["sparsity.yaml"]
        assert f"metadata: {metadata}\n" in text and f"fills: {fills}\n" in text
    # one lane adds into each sum: all 64 begin in Buffer, whose tile is the whole of Z
    rows = {(row.component, row.tensor, row.action): row.count for row in evaluate(specified(tmp_path, result)).actions}
    assert rows["Buffer", "Z", "write"] == pytest.approx(64 + 512 * 0.25 * 0.5)


@pytest.mark.parametrize(
    ("density", "said"),
    [
        ("{distribution: fixed_structurd, density: 0.5}", "did you mean 'fixed_structured'"),
        ("{distribution: real_data}", "density of B.data_file_path is missing"),
    ],
)
def test_a_distribution_that_is_not_known_is_an_error_as_for_sparseloop(tmp_path, density, said):
    with pytest.raises(SpecError, match="density of B") as found:
        imported(tmp_path, density)
    assert said in str(found.value)


def test_fields_that_are_not_known_are_reported_and_dimensions_are_errors(tmp_path):
    machine = MACHINE.replace("{name: A, ranks: [{format: UOP}", "{name: A, ranks: [{format: UOP, payload_word_bit: 3}")
    machine = machine.replace("{target: A, condition_on: [B]}", "{target: A, condition_on: [B], conditions: 1}")
    left = imported(tmp_path, "{distribution: fixed, density: 0.5, deviation: 0.1}", machine).left_out
    unknown = {"BackingStorage.ranks.payload_word_bit", "Buffer.options.conditions", "density of B.deviation"}
    assert unknown <= {entry.key for entry in left}
    wrong = MACHINE.replace("[{format: UOP}, {format: CP}]", "[{format: CP, flattened_rankIDs: [[M, Q]]}]")
    with pytest.raises(SpecError, match="'Q' is not a dimension of the problem"):
        imported(tmp_path, machine=wrong)
