"""Files that commands write: nothing of the user's is overwritten unasked, and an input never."""

import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import typer
from tests.emit.running import needs_compiler
from tests.onnx_models import model, node, numbers

from einmap.cli.main import app
from einmap.cli.writing.target import Target
from einmap.errors import SpecError
from einmap.frontends.yaml.spec import example_paths
from einmap.matmul.machine.read_machine import machine_paths

SMALL = ("-D", "M=16", "-D", "K=8", "-D", "N=16")
SPEC = ("arch.yaml", "work/load.yaml", "mapping.yaml")


@dataclass(frozen=True)
class Writes:
    """A command that writes a file under the option `option`, with an ending that it accepts."""

    words: tuple[str, ...]
    option: str = "-o"
    ending: str = ".yaml"

    @property
    def spec(self) -> tuple[str, ...]:
        """The words that stand for its inputs."""
        return tuple(word for word in self.words if word in (*SPEC, "machine.yaml"))


TRAINED = ("train-plan", "work/load.yaml", *SMALL, "--mesh", "x=2", "--batch", "2", "--ranks", "M")
TABLE = {
    "map": Writes(("map", *SPEC[:2], *SMALL, "--max-evaluations", "5")),
    "partition": Writes(("partition", "work/load.yaml", *SMALL, "--split", "K=2")),
    "gradient": Writes(("gradient", "work/load.yaml", *SMALL, "--of", "Z", "--by", "A")),
    "dump": Writes(("dump", *SPEC, *SMALL)),
    "import": Writes(("import", "model.onnx")),
    "schema": Writes(("schema",), ending=".json"),
    "rewrite": Writes(("rewrite", *SPEC, *SMALL, "--do", "split k 4")),
    "show": Writes(("show", *SPEC, *SMALL), ending=".svg"),
    "emit": Writes(("emit", *SPEC, *SMALL), ending=".c"),
    "machine": Writes(("machine", "--this-cpu", "--no-measure")),
    "bench": Writes(("bench", *SPEC, *SMALL, "-D", "BITS=32", "--repeats", "1"), ending=".c"),
    "plan-matmul": Writes(("plan-matmul", "128", "128", "128", "--machine", "machine.yaml", "--dtype", "fp8")),
    "pipeline": Writes(("pipeline", "--schedule", "1f1b"), ending=".csv"),
    "pipeline --svg": Writes(("pipeline", "--schedule", "1f1b"), "--svg", ".svg"),
    "pipeline --trace": Writes(("pipeline", "--schedule", "1f1b"), "--trace", ".json"),
    "plan": Writes(("plan", "work/load.yaml", *SMALL, "--mesh", "x=2")),
    "plan --svg": Writes(("plan", "work/load.yaml", *SMALL, "--mesh", "x=2"), "--svg", ".svg"),
    "plan --timeline": Writes(("plan", "work/load.yaml", *SMALL, "--mesh", "x=2"), "--timeline", ".svg"),
    "plan --trace": Writes(("plan", "work/load.yaml", *SMALL, "--mesh", "x=2"), "--trace", ".json"),
    "train-plan": Writes(TRAINED, ending=".yaml"),
    "train-plan --svg": Writes(TRAINED, "--svg", ".svg"),
    "train-plan --trace": Writes(TRAINED, "--trace", ".json"),
    "search --save-model": Writes(
        ("search", *SPEC[:2], *SMALL, "--strategy", "random", "--evaluations", "9", "--seeds", "1", "--workers", "1"),
        "--save-model",
        ".model",
    ),
    "simulate --plot": Writes(("simulate", *SPEC, *SMALL), "--plot", ".png"),
    "simulate --trace": Writes(("simulate", *SPEC, *SMALL), "--trace", ".csv"),
}
READERS = {name: command for name, command in TABLE.items() if command.spec}


def each(table):
    """One test for each command; those that compile are left out where there is no compiler."""
    cases = [pytest.param(c, marks=needs_compiler if n == "bench" else (), id=n) for n, c in table.items()]
    return pytest.mark.parametrize("command", cases)


commands, readers = each(TABLE), each(READERS)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A directory with inputs, which include others by tag, by function and as a template."""
    monkeypatch.chdir(tmp_path)
    for name, shipped in zip(SPEC, ("simple", "matmul", "simple_matmul"), strict=True):
        Path(name).parent.mkdir(exist_ok=True)
        shutil.copy(example_paths()[shipped], name)
    shutil.copy(machine_paths()["chiplet_256"], "machine.yaml")
    Path("model.onnx").write_bytes(onnx_model())
    for name in (*SPEC, "machine.yaml"):
        given, folder = Path(name), Path(name).parent / "parts"
        folder.mkdir(exist_ok=True)
        key, _, rest = given.read_text().partition(":\n")
        lead, key = key.rpartition("\n")[0], key.rpartition("\n")[2]
        (folder / f"{given.stem}.txt").write_text(f"{key}:\n{rest}")
        given.write_text(f"{lead}\n{{% include 'parts/{given.stem}.txt' %}}\n")


@cache
def onnx_model() -> bytes:
    """One matrix product."""
    product = node("MatMul", ["x", "w"], ["y"])
    return model([product], {"x": (4, 8)}, {"w": numbers(8, 4)}).SerializeToString()


def names_here() -> list[str]:
    return sorted(file.name for file in Path().iterdir())


def options_that_write():
    """Name of command and option, for all options of the command line that take a path to write to."""
    group = typer.main.get_command(app)
    written = {"--output", "--plot", "--svg", "--timeline", "--trace", "--save-model"}
    for name in group.commands:
        for parameter in group.commands[name].params:
            if written & {*parameter.opts}:
                yield name, parameter.opts, [option for one in group.commands[name].params for option in one.opts]


def test_the_table_has_all_commands_that_write_and_all_of_them_know_force():
    found = {(name, command.option) for name, command in ((one.words[0], one) for one in TABLE.values())}
    known = list(options_that_write())
    # `sweep show` reads a store: tests/cli/test_sweep.py; `export` writes a folder: tests/cli/test_import.py
    elsewhere = {("sweep", "-o"), ("export", "-o")}
    assert found | elsewhere == {(name, "-o" if "-o" in opts else opts[0]) for name, opts, _ in known}
    assert [name for name, _, options in known if "--force" not in options] == []


@commands
def test_a_file_that_exists_is_refused_before_anything_is_read_and_replaced_by_force(run, command):
    file = Path(f"out{command.ending}")
    file.write_text("mine")
    for name in command.spec:
        Path(name).rename(f"{name}.away")
    done = run(*command.words, command.option, file)
    assert (done.status, done.out) == (2, "")
    assert f"error: {file}: the file exists" in done.err
    assert "--force" in done.err
    assert file.read_text() == "mine"
    for name in command.spec:
        Path(f"{name}.away").rename(name)
    before = names_here()
    file.chmod(0o640)
    done = run(*command.words, command.option, file, "--force")
    assert (done.status, "wrote" in done.err) == (0, True), done.err
    assert file.read_bytes()[:4] != b"mine"
    assert (names_here(), file.stat().st_mode & 0o777) == (before, 0o640)


@readers
@pytest.mark.parametrize("force", [(), ("--force",)], ids=["", "force"])
def test_no_input_is_ever_replaced(run, command, force):
    read = command.spec[-1]
    part = Path(read).parent / "parts" / f"{Path(read).stem}.txt"
    kept = {name: Path(name).read_text() for name in (read, part)}
    aliases = []
    for number, name in enumerate((read, part)):
        symbolic, hard, relative = (
            Path(f"{kind}{number}{command.ending}") for kind in ("soft", "hard", "away/../dots")
        )
        Path("away").mkdir(exist_ok=True)
        symbolic.symlink_to(Path(name).resolve())
        hard.hardlink_to(name)
        relative.symlink_to(symbolic.absolute())
        aliases += [symbolic, hard, relative]
    for alias in aliases:
        done = run(*command.words, command.option, alias, *force)
        assert (done.status, done.out) == (2, "")
        # without --force a file that exists is refused whatever it is; an included one is not read for that
        assert "the output would replace a file of the specification" in done.err or not force, alias
        assert {name: Path(name).read_text() for name in kept} == kept


def test_the_given_mapping_and_allowed_code_are_inputs_too(run):
    Path("code.py").write_text("def f():\n    return 1\n")
    Path("given.yaml").write_text("{% include 'mapping.yaml' %}\n")
    words = (*TABLE["map"].words, "--given", "given.yaml", "--allow-code", "code.py", "--force", "-o")
    for file in ("given.yaml", "mapping.yaml", "parts/mapping.txt", "code.py"):
        done = run(*words, file)
        assert (done.status, "would replace a file of the specification" in done.err) == (2, True), done.err


def test_no_shipped_file_is_replaced_even_by_force(run):
    shipped = example_paths()["simple"]
    before = shipped.read_text()
    done = run("dump", "tpu_v4i", "-o", shipped, "--force")
    assert (done.status, "einmap's own directory" in done.err) == (2, True)
    assert shipped.read_text() == before


def test_a_file_that_appears_during_the_work_is_kept(tmp_path):
    target = Target.of(tmp_path / "best.yaml", force=False)
    target.path.write_text("mine")
    with pytest.raises(SpecError, match="the file exists"):
        target.write("new")
    assert [(file.name, file.read_text()) for file in tmp_path.glob("best*")] == [("best.yaml", "mine")]
    assert [name for name in names_here() if name.endswith(".tmp")] == []


def test_without_hard_links_a_file_is_written_and_none_is_replaced(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError("no links here")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    target = Target.of(tmp_path / "best.yaml", force=False)
    target.write(b"new")
    assert target.path.read_bytes() == b"new"
    with pytest.raises(SpecError, match="the file exists"):
        target.write(b"newer")
