"""`--help` of every command, in 80 columns, with an example that can be run; completion in shells."""

import shlex

import pytest
from rich.cells import cell_len

from einmap.cli.command import EXAMPLE
from einmap.cli.registry import COMMANDS, Commands

LONGEST_HELP = 110
"""Characters that say what an option is for."""
LONG_HELPS = {
    ("rewrite", "--do"): "every rewrite with its arguments",
    ("map", "--metrics"): "every metric",
    ("partition", "--split"): "both ways to write it",
}
"""Options that need more, with what they say."""


def plain(text):
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_fits_and_ends_with_an_example(run, name):
    done = run(name, "--help")
    assert done.status == 0
    lines = [line.rstrip() for line in done.out.splitlines() if line.strip()]
    assert max(map(cell_len, lines)) <= 80
    assert len(lines) <= 90
    after_panels = plain(done.out[done.out.rindex("╯") + 1 :])
    assert after_panels.startswith(f"{EXAMPLE} einmap {name}")
    assert EXAMPLE not in done.out[: done.out.rindex("╯")]


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_are_calls_that_the_command_takes(name):
    command = Commands()[name]
    examples = command.epilog.replace("\\[", "[").split("\n\n")
    assert examples
    for example in examples:
        words = shlex.split(example.removeprefix(EXAMPLE))
        assert words[:2] == ["einmap", name]
        context = command.make_context(name, words[2:])
        assert context.params


@pytest.mark.parametrize("name", COMMANDS)
def test_options_say_what_they_are_for_in_few_words(name):
    for option in Commands()[name].params:
        if option.param_type_name == "option" and (name, option.opts[0]) not in LONG_HELPS:
            assert 10 <= len(option.help) <= LONGEST_HELP, option.opts


def test_the_help_of_all_commands_fits_too(run):
    out = run("--help").out
    assert max(cell_len(line.rstrip()) for line in out.splitlines()) <= 80
    assert "--install-completion" in out
    assert "<bool>" not in out + run("map", "--help").out


@pytest.mark.parametrize(
    ("words", "number", "completed"),
    [
        ("einmap ma", 1, ["map", "machine"]),
        ("einmap plan-matmul --mea", 2, ["--measure"]),
        ("einmap explain simple --te", 3, ["--tensor"]),
        (
            "einmap evaluate simple matmul simple_matmul_c",
            4,
            ["simple_matmul_chain_fused", "simple_matmul_chain_unfused"],
        ),
        ("einmap diff simple gpt3_6.7b_d", 3, ["gpt3_6.7b_decode"]),
        ("einmap map own", 2, ["own.yaml"]),
        ("einmap map sub/o", 2, ["sub/other.yaml"]),
        ("einmap map simple --semantics a", 4, ["accelforge"]),
        ("einmap map simple --metrics edp,lat", 4, ["edp,latency"]),
        ("einmap map simple --option max_fused_loops_per", 4, ["max_fused_loops_per_rank_variable="]),
        ("einmap emit simple --lang ", 4, ["pseudo", "python", "c"]),
        ("einmap search simple --strategy random,anneal", 4, ["random,annealing"]),
        ("einmap plan-matmul 8 8 8 --machine this", 6, ["this-cpu"]),
    ],
)
def test_shells_complete_commands_options_and_values(run, monkeypatch, tmp_path, words, number, completed):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    for file in ("own.yaml", "own.txt", "sub/other.yaml"):
        (tmp_path / file).touch()
    monkeypatch.setenv("_EINMAP_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(number))
    done = run()
    assert (done.status, done.out.split()) == (0, completed)


def test_completion_is_installed_where_the_shell_reads_it(run, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))  # the tests may run without one
    assert run("--install-completion", "bash").status == 0
    script = (tmp_path / ".bash_completions" / "einmap.sh").read_text()
    assert "complete -o default -F _einmap_completion einmap" in script
    assert "einmap.sh" in (tmp_path / ".bashrc").read_text()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_repeated_option_is_taken_each_time_or_refused(name):
    command = Commands()[name]
    for option in command.params:
        if option.param_type_name != "option" or (option.is_flag and not option.secondary_opts):
            continue
        used = [option.opts[0]] if option.is_flag else [option.opts[0], "1"]
        parser = command.make_parser(command.context_class(command))
        taken, _, _ = parser.parse_args([*used, *used])
        if option.multiple:
            assert taken[option.name] == ["1", "1"]
        else:
            with pytest.raises(Exception, match="it is given 2 times"):
                command.make_context(name, [*used, *used])
