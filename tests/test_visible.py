"""What specifications, machines and file names say is shown escaped, on every surface that shows it."""

import io
import unicodedata
import xml.etree.ElementTree as ET

import pytest

import einmap
from einmap.cli.main import main
from einmap.emit.printers.text import comment_safe
from einmap.errors import At, EinmapError, Note
from einmap.report.drawing.draw import draw
from einmap.report.text.console import SafeConsole
from einmap.visible import short, visible

STEERS = "\x1b]0;pwned\x07\x1b[31m\x9b2J\r\b\u202e\u2066\u200b\ufeff\x85\u2028"
SPEAKS = "[red]x[/y] :smile: <b>&"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("é ü 日本 µJ × ≤ ░█", "é ü 日本 µJ × ≤ ░█"),
        ("a\nb", "a\nb"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\u202eabc", "\\u202eabc"),
        ("M\u0430in", "M\\u0430in"),
        ("Мир αβγ", "Мир αβγ"),
        ("z" + "\u0301" * 5, "z\u0301\u0301" + "\\u0301" * 3),
        ("\ud800", "\\ud800"),
    ],
)
def test_visible(text, shown):
    assert visible(text) == shown


def test_what_is_shown_is_seen():
    shown = visible("".join(map(chr, range(0x3000))) + "".join(map(chr, range(0xD700, 0x11000))))
    found = {unicodedata.category(char) for char in shown if char != "\n"}
    assert not found & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def test_a_console_shows_text_as_it_is_and_keeps_its_own_colours():
    file = io.StringIO()
    console = SafeConsole(file=file, width=200, plain=True)
    console.print(STEERS + SPEAKS)
    assert file.getvalue() == visible(STEERS) + SPEAKS + "\n"


def test_errors_notes_and_comments():
    for text in (str(EinmapError(STEERS, at=At(STEERS, path=STEERS), hint=STEERS)), str(Note(STEERS, At(STEERS)))):
        assert all(c.isprintable() or c == "\n" for c in text)
    assert comment_safe("a*/b\\\nc\x1b").isprintable()
    assert "*/" not in comment_safe("a*/b")


def specification(tmp_path):
    """A file whose name, variables and Einsum hold what would steer a terminal."""
    steers = "".join(f"\\U{ord(c):08x}" for c in STEERS)
    file = tmp_path / "a\x1b[31m\u202e.yaml"
    file.write_text(
        f'variables: {{a: "{steers}{SPEAKS}", b: "{steers}"}}\nworkload: {{rank_sizes: {{"{steers}": 1}}}}\n'
    )
    return file


@pytest.mark.parametrize(
    "words",
    [
        ["evaluate", "A"], ["diff", "A", "B"], ["diff", "B", "A", "--json"], ["dump", "A"], ["show", "A"],
        ["partition", "A"],
    ],
)  # fmt: skip
def test_commands_print_nothing_raw(words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    (tmp_path / "b.yaml").write_text("variables: {a: 1}\n")
    files = {"A": specification(tmp_path).name, "B": "b.yaml"}
    with pytest.raises(SystemExit):
        main([files.get(word, word) for word in words])
    said = "".join(capsys.readouterr())
    assert not {c for c in said if not c.isprintable()} - {"\n"}


def test_a_picture_is_xml_whatever_its_title_holds():
    picture = draw(einmap.load("simple", "matmul"), "arch", title=STEERS + SPEAKS)
    title = ET.fromstring(picture).find("{http://www.w3.org/2000/svg}title")
    assert title is not None
    assert title.text == visible(STEERS) + SPEAKS


def test_values_in_messages_are_short():
    nested = []
    for _ in range(100_000):
        nested = [nested]
    for value in ("a" * 10**6, 10**10_000, [[1] * 1000], {"a": "b" * 1000}, nested, b"a" * 10**5, object()):
        assert len(short(value)) < 260
