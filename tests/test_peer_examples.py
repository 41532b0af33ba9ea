"""Every file of AccelForge's examples loads, binds and evaluates or maps, or is refused with the reason.

Its package installs them; they are no part of this project. The environment variable of `tests/peer_examples.py` says
where they are: `make test-all PART=peer`.
"""

import importlib.util
import re
from functools import cache
from pathlib import Path

import pytest
from tests.peer_examples import (
    DEFINE,
    IN_MEMORY,
    MISSPELT,
    NO_ACCELFORGE,
    NO_MAPPING,
    NO_NEUROSIM,
    NOT_A_SPECIFICATION,
    OLD_FORMAT,
    SINGLE_NODE,
    VARIABLE,
    end_of,
    examples,
    files,
    in_memory,
)

from einmap import SpecError, load, map_workload
from einmap.components.installed.hwcomponents import has_packages, installed_model

FOLDER = examples()
FILES = [] if FOLDER is None else files(FOLDER)

ENERGIES = {
    "mappings/fused_matmuls_to_simple.yaml": 17498112,
    "mappings/unfused_matmuls_to_simple.yaml": 17629184,
    "mappings/fused_matvecs_to_simple_tiled.yaml": 1728,
    "mappings/fused_matvecs_to_simple_tiled_reuse_A.yaml": 1504,
    "mappings/fused_matvecs_to_simple_untiled.yaml": 1248,
    "mappings/unfused_matvecs_to_simple.yaml": 1344,
    "arches/simple.yaml": 17235968,
    "arches/snowcat.yaml": 131072,
}
"""Energies that AccelForge 1.0.467 itself finds, by evaluation or by its mapper with at most one fused loop."""

ENERGIES_IN_MEMORY = {
    "basic_analog": 2.6253290587174625e-10, "colonnade_jssc_2021": 2.373015990325681e-09,
    "isaac_isca_2016": 4.679057815976459e-08, "neurram_nature_2022": 1.0137163452222773e-08,
    "sinangil_jssc_2021": 4.3712253376375716e-12, "wang_vlsi_2022": 1.1942350571319157e-10,
}  # fmt: skip
"""J that AccelForge's mapper finds for energy, with a main memory, no imperfect loops, and models of hwcomponents alone.

In isaac_isca_2016 `throughput_scale` was written as 1, since AccelForge 1.0.467 does not know it there.
"""


@cache
def runs_neurosim() -> bool:
    """Whether the program of NeuroSim runs here."""
    try:
        installed_model("NANDGate").estimate({"tech_node": 45e-9, "cycle_period": 1e-9}, {"read": {}})
    except SpecError:
        return False
    return True


def expected_in_memory(name: str) -> tuple[str, str]:
    """What becomes of an architecture of compute in memory, by what is installed."""
    if importlib.util.find_spec("accelforge") is None:
        return "refused", NO_ACCELFORGE
    if name == "albireo_isca_2021":
        return "refused", MISSPELT
    if not has_packages() or not runs_neurosim():
        return "refused", NO_NEUROSIM if has_packages() else "it is a class of hwcomponents-neurosim"
    return ("refused", NO_MAPPING) if name == "raella_isca_2023" else ("maps", "energy")


pytestmark = [
    pytest.mark.slow,
    pytest.mark.peer,
    # code of hwcomponents-cacti leaves a file open
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.skipif(FOLDER is None, reason=f"set {VARIABLE} to the folder `examples` that AccelForge installs"),
]


def expected(file: Path) -> tuple[str, str]:
    """The stage that a file reaches and what is said, from what stands in it."""
    text = file.read_text()
    if file.parent.name == "memory_cells":
        return "refused", NOT_A_SPECIFICATION
    if text.lstrip().startswith("!Memory") or "\n!Memory\n" in text:
        return "refused", SINGLE_NODE
    if file.parent.name == IN_MEMORY and file.parent.parent.name == "arches":
        return expected_in_memory(file.stem)
    if re.search(r"^ +version:", text, re.MULTILINE):
        return "refused", OLD_FORMAT
    if file.parent.name == "mappings":
        return ("loads", "") if file.stem == "simple_fused" else ("evaluates", "energy")
    return "maps", "energy"


def test_the_folder_has_examples() -> None:
    assert len(FILES) > 40


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(FOLDER)))
def test_each_file_ends_as_documented(file: Path) -> None:
    assert FOLDER is not None
    stage, said = expected(file)
    end = end_of(file, FOLDER)
    assert end.stage == stage
    assert said in end.said
    energy = ENERGIES.get(file.relative_to(FOLDER).as_posix())
    assert energy is None or end.energy == pytest.approx(energy, rel=1e-6)


def test_a_component_by_itself_is_included_where_it_belongs(tmp_path: Path) -> None:
    assert FOLDER is not None
    (tmp_path / "arch.yaml").write_text(f"arch: {{nodes: [!include {FOLDER}/misc/component_annotated.yaml]}}\n")
    with pytest.raises(SpecError, match="leads out of"):
        load(tmp_path / "arch.yaml")
    whole = load(tmp_path / "arch.yaml", FOLDER / "arches/simple.yaml", root=FOLDER, define=DEFINE)
    assert whole.to_dict()["arch"]["nodes"][0]["component_class"] == "SmartBufferSRAM"


@pytest.mark.parametrize("name", ENERGIES_IN_MEMORY)
def test_compute_in_memory_costs_what_it_costs_in_accelforge(name: str) -> None:
    if expected_in_memory(name)[0] != "maps":
        pytest.skip("AccelForge, hwcomponents or a C library in which NeuroSim runs is missing")
    assert FOLDER is not None
    spec = in_memory(FOLDER / "arches" / IN_MEMORY / f"{name}.yaml", "first")
    result = map_workload(spec, metrics="energy", semantics="accelforge")
    assert result.optimal
    assert result.cost.energy == pytest.approx(ENERGIES_IN_MEMORY[name], rel=1e-6)
