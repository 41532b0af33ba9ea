"""Every kind of bad input: exit status 2, a message that says where and what to try, and no traceback."""

import pytest

from einmap.frontends.yaml.spec import example_paths

ARCH, WORKLOAD, MAPPING = "simple", "matmul", "simple_matmul"


def refused(done):
    """The message of a command that refused its input."""
    assert (done.status, done.out) == (2, "")
    assert "Traceback" not in done.err
    return done.err


def written(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("command", ["evaluate", "map"])
def test_an_unknown_name_is_answered_with_the_shipped_one_that_is_close(run, command):
    message = refused(run(command, "simpel", "matmul"))
    assert message.startswith("error: there is no file 'simpel' here, and no shipped example of that name")
    assert "did you mean 'simple'?" in message


def test_an_unknown_name_that_is_close_to_nothing_is_answered_with_all_names(run):
    answer = refused(run("evaluate", "qqq"))
    assert "shipped: " in answer
    assert [name for name in example_paths() if name not in answer] == []


def test_a_file_name_of_an_example_is_answered_with_its_name(run):
    assert "did you mean 'tpu_v4i'?" in refused(run("evaluate", "tpu_v4i.yml"))


def test_a_file_nearby_is_proposed_too(run, tmp_path, monkeypatch):
    written(tmp_path, "machine.yaml", "arch: {nodes: []}")
    monkeypatch.chdir(tmp_path)
    assert "did you mean 'machine.yaml' or " in refused(run("evaluate", "machin.yaml"))


def test_missing_files_in_directories_and_patterns_without_match_are_errors(run, tmp_path):
    assert "error: " in refused(run("evaluate", tmp_path / "none.yaml"))
    assert "error: " in refused(run("evaluate", f"{tmp_path}/*.yaml"))
    assert "error: " in refused(run("evaluate", tmp_path))


def test_broken_yaml_is_an_error_with_its_line(run, tmp_path):
    path = written(tmp_path, "broken.yaml", "arch:\n  nodes: [1, 2\n")
    assert f"error: {path}:" in refused(run("evaluate", path, WORKLOAD))


def test_bytes_that_are_no_text_are_an_error(run, tmp_path):
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"arch: \xff\xfe")
    assert "not UTF-8" in refused(run("evaluate", path))


def test_an_unknown_key_is_an_error_with_place_and_hint(run, tmp_path):
    path = written(tmp_path, "typo.yaml", "workload:\n  einsums: []\nmaping: {}\n")
    message = refused(run("evaluate", path))
    assert f"error: {path}:3" in message
    assert "hint: did you mean 'mapping'?" in message


def test_all_problems_are_reported(run, tmp_path):
    first, second = (written(tmp_path, f"{n}.yaml", f"{n}x: 1\n") for n in ("arch", "mapping"))
    assert refused(run("evaluate", first, second)).count("error: ") == 2


def test_a_specification_without_mapping_is_told_of_the_mapper(run):
    assert "einmap map" in refused(run("evaluate", ARCH, WORKLOAD))


def test_a_specification_without_workload_or_architecture_is_an_error(run):
    assert "error: " in refused(run("evaluate", ARCH, MAPPING))
    assert "error: " in refused(run("evaluate", WORKLOAD, MAPPING))
    assert "error: " in refused(run("map", WORKLOAD))


def test_a_mapping_that_does_not_fit_is_an_error_with_its_node(run):
    message = refused(run("evaluate", ARCH, WORKLOAD, MAPPING, "-D", "M=8"))
    assert "simple_matmul.yaml:7:" in message
    assert "mapping.nodes[1]" in message


def test_a_full_memory_is_an_error(run):
    message = refused(run("evaluate", ARCH, WORKLOAD, MAPPING, "-D", "K=65536"))
    assert "memory 'GlobalBuffer' needs" in message


def test_unknown_counting_rules_are_an_error(run):
    assert "unknown semantics 'exakt'" in refused(run("evaluate", ARCH, WORKLOAD, MAPPING, "--semantics", "exakt"))
    assert "did you mean 'exact'?" in refused(run("map", ARCH, WORKLOAD, "--semantics", "exakt"))


@pytest.mark.parametrize("given", ["N", "=3", "a-b=3", "N=" + "9" * 5000, "N=1e999"])
def test_definitions_that_cannot_be_read_are_usage_errors(run, given):
    assert "-D" in refused(run("evaluate", ARCH, WORKLOAD, MAPPING, "-D", given))


@pytest.mark.parametrize(
    "words",
    [
        ["evaluate", ARCH, "--fast"],
        ["evaluat", ARCH],
        ["map", ARCH, WORKLOAD, "--metrics", "speed"],
        ["map", ARCH, WORKLOAD, "--metrics", ""],
        ["map", ARCH, WORKLOAD, "--time-limit", "soon"],
        ["map", ARCH, WORKLOAD, "--time-limit", "-1"],
        ["map", ARCH, WORKLOAD, "--max-evaluations", "0"],
        ["map", ARCH, WORKLOAD, "--workers", "0"],
    ],
)
def test_wrong_use_is_an_error_that_names_the_help(run, words):
    message = refused(run(*words))
    assert "Usage: einmap" in message
    assert "help" in message


@pytest.mark.parametrize("output", ["missing/mapping.yaml", "."])
def test_an_output_that_cannot_be_written_is_found_before_the_search(run, tmp_path, monkeypatch, output):
    monkeypatch.setattr("einmap.cli.commands.map._search", lambda *_, **__: pytest.fail("the search has started"))
    message = refused(run("map", ARCH, WORKLOAD, "-o", tmp_path / output))
    assert message.startswith("error: ")


def test_control_characters_of_a_message_do_not_reach_the_terminal(run, tmp_path):
    path = written(tmp_path, "escape.yaml", '"\\e[2Jarch": 1\n')
    message = refused(run("evaluate", path))
    assert "\x1b" not in message
    assert "\\x1b" in message


@pytest.mark.parametrize("command", ["evaluate", "map"])
def test_a_name_that_no_file_can_have_is_an_unknown_name(run, command):
    assert "there is no file 'aaa" in refused(run(command, "a" * 300))
    assert "File name too long" in refused(run(command, f"./{'a' * 300}"))


def test_an_output_name_that_no_file_can_have_is_refused(run):
    assert "File name too long" in refused(run("map", ARCH, WORKLOAD, "-o", "a" * 300))


def test_the_output_must_not_replace_an_input(run, tmp_path, monkeypatch):
    path = written(tmp_path, "spec.yaml", "mapper: {}\n")
    monkeypatch.chdir(tmp_path)
    for given, output in (("spec.yaml", path), (path, "./spec.yaml"), (f"{tmp_path}/*.yaml", path)):
        assert "would replace a file of the specification" in refused(run("map", ARCH, WORKLOAD, given, "-o", output))
    assert path.read_text() == "mapper: {}\n"


def test_a_negative_seed_is_a_usage_error(run):
    done = run("map", ARCH, WORKLOAD, "--seed", "-1")
    assert (done.status, done.out) == (2, "")
    assert "--seed" in done.err
