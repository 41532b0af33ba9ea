"""How the tests run the command line: in this process, with what it prints."""

from dataclasses import dataclass

import pytest

from einmap.cli.main import main


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    status: int
    out: str
    err: str


@pytest.fixture
def run(capsys, monkeypatch):
    """Call it with words: `run("evaluate", "simple", ...)`."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    # whether kernels are kept depends on the machine
    monkeypatch.setattr("einmap.cli.progress_bar.is_uncompiled", lambda: False)

    def run_command(*words) -> Done:
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        captured = capsys.readouterr()
        return Done(int(ended.value.code or 0), captured.out, captured.err)

    return run_command


def without(words, options):
    """The words of a command line but for some options, each with its value."""
    values = {i + 1 for i, word in enumerate(words) if word in options}
    return [word for i, word in enumerate(words) if word not in options and i not in values]
