"""`einmap tokens`: its report, its documents, and what it refuses."""

import csv
import json

import pytest
from tests.frontends.huggingface.configs import PUBLISHED


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(PUBLISHED["Llama-3.1-8B"][0]))
    return path


def test_a_table_over_batches_and_contexts_on_a_cluster(run, model):
    words = ("tokens", model, "--on", "h100_nodes", "--devices", "2", "--batch", "1,256", "--context", "1024,32768")
    done = run(*words)
    assert done.status == 0
    assert "8.03e9 parameters on 2 devices" in done.out
    assert next(line.split()[-1] for line in done.out.splitlines() if line.split()[:2] == ["256", "32,768"]) == "room"
    document = json.loads(run(*words, "--json").out)
    assert [(p["batch"], p["context"]) for p in document["points"]] == [
        (1, 1024),
        (256, 1024),
        (1, 32768),
        (256, 32768),
    ]
    one, many = document["points"][:2]
    assert one["seconds_for_each_token"] < many["seconds_for_each_token"] < 256 * one["seconds_for_each_token"]
    assert one["memory"]["weights"] == 8_030_261_248
    assert one["energy_of_a_token"] is None
    narrow = json.loads(run(*words, "--json", "--weight-bits", "8", "--cache-bits", "8").out)["points"][1]
    assert narrow["memory"]["cache"] == many["memory"]["cache"] / 2
    assert narrow["seconds_for_each_token"] < many["seconds_for_each_token"]


def test_a_name_of_the_hub_is_not_a_file(run):
    done = run("tokens", "meta-llama/Llama-3.1-8B", "--on", "h100_node")
    assert done.status == 2
    assert "meta-llama/Llama-3.1-8B: there is no such file" in done.err
    assert "nothing is downloaded: save the model's config.json" in " ".join(done.err.split())


def test_tables_are_written(run, model, tmp_path):
    written = tmp_path / "parts.csv"
    done = run(
        "tokens", model, "--on", "h100_nodes", "--batch", "4", "--context", "100", "--csv", written, "--table", "parts"
    )
    assert done.status == 0
    with written.open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["phase"], row["part"]) for row in rows] == [
        (phase, part) for phase in ("token", "prompt") for part in ("embedding", "layer", "head")
    ]
    # nothing that is read is replaced
    assert run("tokens", model, "--on", "h100_nodes", "--csv", model, "--force").status == 2


def test_an_architecture_maps_each_layer_and_says_energy_and_whether_it_is_proven(run, tmp_path):
    small = {
        "model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2,
        "num_hidden_layers": 5, "vocab_size": 64, "torch_dtype": "float8_e4m3fn",
    }  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(small))
    words = ("tokens", path, "--on", "simple", "--batch", "2", "--context", "8", "--no-first", "--no-fuse")
    point = json.loads(run(*words, "--json").out)["points"][0]
    assert point["energy_of_a_token"] > 0
    assert point["seconds_to_first_token"] is None
    assert [part["instances"] for part in point["parts"]] == [1, 5, 1]
    assert "proven" in run(*words).out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--on", "h100_node_z"), "did you mean"),
        (("--on", "matmul"), "neither a cluster nor an architecture"),
        (("--on", "tpu_v4i", "--devices", "2"), "an architecture is one device"),
        (("--on", "h100_nodes", "--batch", "1,x"), "whole numbers from 1 on"),
        (("--on", "h100_nodes", "--context", "0"), "whole numbers from 1 on"),
        (("--on", "h100_nodes", "--metrics", "area"), "expected one of"),
        (("--on", "h100_nodes", "-D", "N=3"), "-D N"),
        ((), "name a machine"),
        (("--compare", "h100_node,h100_nod"), "did you mean 'h100_node'"),
        (("--on", "h100_node", "--devices", "9"), "the cluster has 8 devices, 9 are asked for"),
        (("--on", "h100_node", "--devices", "8", "--fix", "tensr=2"), "did you mean 'tensor'"),
        (("--on", "h100_node", "--devices", "8", "--fix", "tensor=3"), "8 devices cannot be divided so"),
        (("--on", "h100_node", "--devices", "8", "--fix", "expert=2"), "the model has no experts"),
        (("--on", "h100_node", "--kept", "1"), "from 0 to below 1"),
        (("--on", "tpu_v4i", "--fix", "data=1"), "an architecture is one device"),
    ],
)
def test_what_does_not_fit_is_refused(run, model, words, message):
    done = run("tokens", model, *words)
    assert done.status == 2
    assert message in " ".join(done.err.split())


def test_devices_are_divided_as_a_token_takes_least_or_as_is_fixed(run, model):
    words = (
        "tokens",
        model,
        "--on",
        "h100_node",
        "--devices",
        "8",
        "--batch",
        "256",
        "--context",
        "1024",
        "--no-first",
    )
    best = json.loads(run(*words, "--json").out)["points"][0]
    fixed = json.loads(run(*words, "--json", "--fix", "tensor=2,data=4").out)["points"][0]
    assert {name: fixed["plan"][name] for name in ("dp", "tp", "cp", "ep", "pp")} == {
        "dp": 4,
        "tp": 2,
        "cp": 1,
        "ep": 1,
        "pp": 1,
    }
    assert best["seconds_for_each_token"] < fixed["seconds_for_each_token"]
    assert best["seconds_for_each_token"] == min(way["seconds_for_each_token"] for way in best["ways"])
    assert [way["plan"] for way in fixed["ways"]] == [fixed["plan"]]
    shown = run(*words).out
    assert "The best plan of each way to divide devices" in shown
    assert "dearer in" in shown


def test_machines_are_side_by_side(run, model, tmp_path):
    written = tmp_path / "points.csv"
    words = ("--compare", "h100_node,h200_node", "--batch", "1,8", "--context", "1024", "--csv", written)
    done = run("tokens", model, *words)
    assert done.status == 0
    titles = [line.split() for line in done.out.splitlines() if "h200_node" in line]
    assert titles[0] == ["batch", "context", "h100_node", "h200_node"]
    with written.open() as file:
        machines = [row["machine"] for row in csv.DictReader(file)]
    assert machines == ["h100_node", "h100_node", "h200_node", "h200_node"]
    document = json.loads(run("tokens", model, *words[:6], "--json").out)
    alone = json.loads(run("tokens", model, "--on", "h200_node", *words[2:6], "--json").out)
    assert document["machines"][1] == {key: value for key, value in alone.items() if key != "schema"}


def test_the_page_has_the_front_a_roofline_and_all_tables(run, model, tmp_path):
    page = tmp_path / "tokens.html"
    words = ("--on", "h100_node", "--devices", "4", "--batch", "1,64", "--context", "1024", "--html", page)
    assert run("tokens", model, *words).status == 0
    text = page.read_text()
    for title in ("Throughput and latency", "Roofline", "Plans", "Memory", "What limits each part", "all 10 ways"):
        assert title in text
    assert "--devices 4" in text


SMALL = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
    "num_hidden_layers": 2, "vocab_size": 64, "torch_dtype": "bfloat16",
}  # fmt: skip


def test_the_command_writes_a_folder_and_replaces_nothing_unasked(run, tmp_path):
    config, machine = tmp_path / "config.json", tmp_path / "machine.yaml"
    config.write_text(json.dumps(SMALL))
    machine.write_text(
        "cluster: {pe: {peak: {bf16: 1e15}, memory_bandwidth: 1e9}, axes: {x: {size: 2, bandwidth: 1e9}}}\n"
    )
    words = ("tokens", config, "--on", machine, "--no-first", "--batch", "4", "--context", "64")
    profile = tmp_path / "bf16"
    assert run(*words, "--llmservingsim", profile).status == 0
    assert sorted(str(p.relative_to(profile)) for p in profile.rglob("*.*")) == [
        "meta.yaml", "tp1/attention.csv", "tp1/dense.csv", "tp1/per_sequence.csv"
    ]  # fmt: skip
    again = run(*words, "--llmservingsim", profile)
    assert again.status == 2
    assert "the file exists" in again.err
    assert run(*words, "--devices", "2", "--llmservingsim", profile, "--force").status == 0
    assert (profile / "tp1/dense.csv").read_text() != (profile / "tp2/dense.csv").read_text()
    assert "one machine" in run(*words, "--fix", "tensor=1", "--llmservingsim", tmp_path / "other").err
