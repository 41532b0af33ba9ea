"""--root and --top-key: where files come from, in all commands that load a specification."""

import pytest
from typer.main import get_command

from einmap.cli.main import app


def options(command):
    return {parameter.name for parameter in command.params}


def test_every_command_with_template_variables_takes_roots():
    loading = {name: options(one) for name, one in get_command(app).commands.items() if "define" in options(one)}
    assert len(loading) > 10
    # `import` reads no specification: its definitions are sizes of dimensions
    assert {name for name, given in loading.items() if "root" not in given} == set()
    assert {name for name, given in loading.items() if "top_key" not in given} == {"import", "plan-matmul"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "lib/sizes.yaml": "{M: 4, N: 4, K: 4}",
        "spec/w.yaml": "notes: none\nworkload:\n  rank_sizes: !include ../lib/sizes.yaml\n  bits_per_value: {All: 8}\n"
        '  einsums: ["Z[m, n] = A[m, k] * B[k, n]"]\n',
        "given/g.yaml": "mapping: !include ../lib/mapping.yaml\n",
        "lib/mapping.yaml": "{nodes: [!Any {}, !Compute {einsum: Z, component: MAC}]}\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_roots_and_top_keys_reach_the_files(run, folder):
    words = ["dump", "simple", "spec/w.yaml"]
    assert "unknown top-level key 'notes'" in run(*words, "--root", "lib").err
    sections = ["--top-key", "arch", "--top-key", "workload"]
    refused = run(*words, *sections)
    assert refused.status == 2
    assert "the path '../lib/sizes.yaml' leads out of" in refused.err
    done = run(*words, *sections, "--root", "given", "--root", "lib")
    assert done.status == 0
    assert "M: 4" in done.out


def test_a_written_mapping_tells_the_roots_and_top_keys(run, folder):
    sections = ["--top-key", "workload", "--top-key", "arch", "--root", "lib"]
    done = run("map", "spec/w.yaml", "simple", *sections, "-o", "m.yaml", "--given", "given/g.yaml", "--time-limit", 9)
    assert done.status == 0
    assert "--root lib --top-key workload --top-key arch" in (folder / "m.yaml").read_text()
