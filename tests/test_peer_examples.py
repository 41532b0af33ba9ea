"""Every file of AccelForge's examples loads, binds and evaluates or maps, or is refused with the reason.

Its package installs them; they are no part of this project. The environment variable of `tests/peer_examples.py` says
where they are: `make test-all PART=peer`.
"""

import re
from pathlib import Path

import pytest
from tests.peer_examples import (
    DEFINE,
    MODELS,
    NOT_A_SPECIFICATION,
    OLD_FORMAT,
    SINGLE_NODE,
    VARIABLE,
    end_of,
    examples,
    files,
)

from einmap import SpecError, load

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

pytestmark = [
    pytest.mark.slow,
    pytest.mark.peer,
    pytest.mark.skipif(FOLDER is None, reason=f"set {VARIABLE} to the folder `examples` that AccelForge installs"),
]


def expected(file: Path) -> tuple[str, str]:
    """The stage that a file reaches and what is said, from what stands in it."""
    text = file.read_text()
    if file.parent.name == "memory_cells":
        return "refused", NOT_A_SPECIFICATION
    if text.lstrip().startswith("!Memory") or "\n!Memory\n" in text:
        return "refused", SINGLE_NODE
    if re.search(r"^ +component_class: (?!Dummy\b)", text, re.MULTILINE):
        return "refused", MODELS
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
