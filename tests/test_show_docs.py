"""The pictures of docs/show.md are what its commands draw."""

import re
import shlex
from pathlib import Path

import pytest

from einmap.cli.main import main

DOCS = Path(__file__).parent.parent / "docs"
TEXT = (DOCS / "show.md").read_text()
COMMANDS = [shlex.split(line)[1:] for line in re.findall(r"^einmap show .*-o docs/images/\S+$", TEXT, re.MULTILINE)]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: Path(words[-1]).stem)
def test_the_picture_is_what_the_command_draws(words, tmp_path):
    drawn = tmp_path / "drawn.svg"
    with pytest.raises(SystemExit) as ended:
        main([*words[:-1], str(drawn)])
    assert not ended.value.code
    assert drawn.read_text() == (DOCS.parent / words[-1]).read_text()


def test_every_picture_is_drawn_and_shown():
    shown = {path.name: set(re.findall(r"\(images/(\S+\.svg)\)", path.read_text())) for path in DOCS.glob("*.md")}
    assert shown["show.md"] == {Path(words[-1]).name for words in COMMANDS}
    assert set.union(*shown.values()) == {path.name for path in (DOCS / "images").glob("*.svg")}
