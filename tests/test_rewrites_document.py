"""What docs/rewrites.md shows is what happens."""

import re
import shlex
from pathlib import Path

import pytest
from tests.mapping.loop_trees import tree

from einmap import MappingError, Spec, evaluate, load
from einmap.cli.main import main
from einmap.mapping.pretty import pretty
from einmap.mapping.rewrite.branches import merge
from einmap.mapping.rewrite.text import USAGE

TEXT = (Path(__file__).parent.parent / "docs" / "rewrites.md").read_text()


@pytest.mark.parametrize("block", re.findall(r"```console\n\$ (.*?)```", TEXT, re.DOTALL))
def test_commands_print_what_is_shown(block, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    command, _, shown = block.partition("\n")
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(command)[1:])
    assert (ended.value.code or 0, capsys.readouterr().out) == (0, shown)


def test_the_program_prints_what_is_shown(capsys):
    code = re.search(r"```python\n(.*?)```\n\nprints\n\n```\n(.*?)```", TEXT, re.DOTALL)
    exec(compile(code[1], "rewrites.md", "exec"), {})
    assert capsys.readouterr().out == code[2]


def test_the_table_lists_all_rewrites():
    assert re.findall(r"^\| `(.*?)` \|", TEXT.replace("\\|", "|"), re.MULTILINE) == list(USAGE.values())


def test_the_note_that_is_quoted_is_one_of_evaluate():
    quoted = re.search(r"the note that `(.*?)`", TEXT, re.DOTALL)[1].replace("\n", " ")
    assert any(quoted in note.text for note in evaluate(load("simple", "matmul", "simple_matmul")).notes)


def test_merged_branches():
    before, after = re.search(r"\n```\n(\[DRAM.*?)```\n\nbecomes.*?```\n(.*?)```", TEXT, re.DOTALL).groups()
    einsums = ["T[M:m] = A[M:m,K:k]", "Y[P:p,N:n] = T[M:p] * D[N:n]"]
    given = {"rank_sizes": {"M": 4, "K": 4, "N": 4}, "bits_per_value": {"All": 8}, "einsums": einsums}
    arch = {
        "nodes": [
            {"type": "Memory", "name": "DRAM", "size": "inf", "component_class": "Dummy"},
            {"type": "Memory", "name": "GLB", "size": "inf", "component_class": "Dummy"},
            {"type": "Compute", "name": "MAC", "component_class": "Dummy"},
        ]
    }
    spec = Spec.from_dict({"workload": given, "arch": arch})
    with pytest.raises(MappingError, match=r"einmap rewrite \.\.\. --do 'merge nodes\[1\] 0 1'"):
        evaluate(spec, tree(before))
    merged = merge(tree(before), spec.workload)
    assert pretty(merged) + "\n" == after
    assert evaluate(spec, merged).valid
