"""`einmap import --from huggingface`: a `config.json` as a workload."""

import json

from tests.frontends.huggingface.configs import PUBLISHED

import einmap
from einmap import from_huggingface

LLAMA = PUBLISHED["Llama-3.1-8B"][0]


def test_the_file_and_the_dictionary_give_the_same_and_a_folder_is_its_config(run, tmp_path):
    config, parameters = PUBLISHED["Qwen2.5-0.5B"]
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**config, "_name": "x", "eos_token_id": [1, 2], "rope_scaling": None}, indent="\t"))
    written = tmp_path / "work.yaml"
    arguments = ("--from", "huggingface", "--batch", "2", "-D", "context=30", "--bits", "8")
    done = run("import", path, *arguments, "-o", written)
    assert done.status == 0
    assert f"{parameters:,} parameters" in written.read_text()
    bits = dict.fromkeys(("weight_bits", "activation_bits", "cache_bits"), 8)
    model = from_huggingface(tmp_path, batch=2, context=30, **bits)
    assert einmap.load(written).workload == model.spec.workload
    assert run("import", path, *arguments).out == written.read_text()


def test_the_line_of_a_field_is_said_and_the_command_ends_with_2(run, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, "kv_heads": 8}, indent=1))
    line = path.read_text().splitlines().index(' "kv_heads": 8') + 1
    done = run("import", path, "--from", "huggingface")
    assert (done.status, done.out) == (2, "")
    assert f"config.json:{line}:2: kv_heads: this field is not known" in "".join(done.err.split("\n"))
    wrong = run("import", path, "--from", "huggingface", "-D", "contxt=3")
    assert (wrong.status, "did you mean 'context'" in wrong.err) == (2, True)
    assert "expected a whole number" in run("import", path, "--from", "huggingface", "-D", "tokens=many").err
    assert run("import", path, path, "--from", "huggingface").status == 2
    assert run("import", path, "--from", "huggingface", "--value", "a=1").status == 2
