import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scale.yaml").write_text("config: {expression_custom_functions: [code.py]}\n")
    (tmp_path / "code.py").write_text("open('ran', 'w').close()\ndef twice(x):\n    return 2 * x\n")
    return tmp_path


@pytest.mark.parametrize("command", ["evaluate", "simulate", "map"])
def test_code_runs_only_when_it_is_allowed(run, folder, command):
    files = [command, "simple", "matmul", *([] if command == "map" else ["simple_matmul"]), "scale.yaml", "-D", "M=16"]
    files += ["--max-evaluations", 5] if command == "map" else []
    refused = run(*files)
    assert refused.status == 2
    assert "runs only when you allow it" in refused.err
    assert not (folder / "ran").exists()
    assert run(*files, "--allow-code", "code.py").status == 0
    assert (folder / "ran").exists()


def test_a_written_mapping_tells_which_code_ran(run, folder):
    done = run(
        "map", "simple", "matmul", "-D", "M=4", "--max-evaluations", 5, "--allow-code", "code.py", "-o", "m.yaml"
    )
    assert done.status == 0
    assert "--define M=4 --allow-code code.py\n" in (folder / "m.yaml").read_text()
