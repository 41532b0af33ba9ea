"""The examples of docs/input-files.md are read as they stand there."""

import re
from pathlib import Path

import pytest

from einmap.errors import SpecError
from einmap.frontends.yaml.load import read_files
from einmap.frontends.yaml.parsing.parse import parse_yaml
from einmap.spec.raw import get_value, to_python

PAGE = (Path(__file__).parents[2] / "docs" / "input-files.md").read_text()
MERGE, TEMPLATE, INCLUDE = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_the_example_of_merge_keys():
    found = to_python(get_value(parse_yaml(MERGE, "f.yaml"), ("x-local",)))
    assert found["tensors"] == {"may_keep": "Nothing", "keep": "All"}
    assert found["notes"] == ["local", "shared"]
    unmerged = parse_yaml(MERGE.replace("notes: [local] ", "notes: !nomerge [local] "), "f.yaml")
    assert to_python(get_value(unmerged, ("x-local", "notes"))) == ["local"]


def test_the_example_of_templates(tmp_path):
    (tmp_path / "a.yaml").write_text(TEMPLATE)
    tree, notes = read_files(tmp_path / "a.yaml", define={"N": 64})
    assert to_python(tree) == {"variables": {"N": 64, "LANE_0": 0, "LANE_1": 16, "LANE_2": 32, "LANE_3": 48}}
    assert notes == ()
    with pytest.raises(SpecError, match=r"a\.yaml:2: N must be a multiple of 4"):
        read_files(tmp_path / "a.yaml", define={"N": 65})


def test_the_example_of_includes(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "memories.yaml").write_text(
        "dram: !Memory {name: 'DRAM {{ node }}'}\nsram: {defaults: {area: 0}, large: {area: 1, size: 8}}\n"
    )
    (tmp_path / "a.yaml").write_text(INCLUDE)
    assert to_python(read_files(tmp_path / "a.yaml")[0])["arch"]["nodes"] == [
        {"type": "Memory", "name": "DRAM 7nm"},
        {"type": "Memory", "name": "Buffer", "area": 0, "size": 8},
    ]


def test_every_top_level_key_is_listed():
    from einmap.spec.spec import TOP_LEVEL

    assert all(f"`{key}`" in PAGE for key in TOP_LEVEL)
