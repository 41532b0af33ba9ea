"""Each hostile file through the command line: it ends as promised, within its time and memory, and says little.

Every file of the folder `hostile` and of GENERATED has a row in ROWS: the command, and how it must end.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.catalogue.children import Command, run_all
from tests.catalogue.generated import GENERATED
from tests.catalogue.template_attacks import MULTIPLYING, REACHING

FILES = {
    file.name: file.read_text(encoding="utf-8") for file in (Path(__file__).parent / "hostile").iterdir()
} | GENERATED
MEGABYTE = 2**20


@dataclass(frozen=True)
class Row:
    """`args`: the command, files by their names in the folder.

    `ends`: "error" (status 2, with the place of the problem), "refusal" (status 2, nothing has a place) or
    "result". `says`: words of the message. Limits: `seconds` of the processor, `megabytes` of memory beyond
    those of an interpreter that has imported einmap, `characters` printed.
    """

    args: str
    ends: str
    says: str = ""
    seconds: int = 10
    megabytes: int = 1000
    characters: int = 20_000


ROWS = [
    Row("evaluate 03-quoted-integer-of-400-digits.yaml", "error", "size is too large"),
    Row("evaluate 12-expression-pow-10s.yaml", "error", "more than 200000 steps", seconds=1, megabytes=200),
    Row("evaluate 12-expressions-1000.yaml", "error", "more than 200000 steps", seconds=1, megabytes=200),
    Row("evaluate 14-errors-700.yaml", "error", "... and 1,380 more problems"),
    Row("evaluate 15-variables-700-undefined.yaml", "error", "... and 680 more problems"),
    Row("evaluate 11-merge-sources-10000.yaml", "result"),
    Row("evaluate 10-template-to-bytes.yaml", "error", seconds=1, megabytes=200),
    Row("evaluate 10-template-str-ljust.yaml", "error", seconds=1, megabytes=200),
    Row("evaluate 10-template-round-negative.yaml", "error", seconds=1, megabytes=200),
    Row("evaluate 10-template-round-filter.yaml", "error", seconds=1, megabytes=200),
    Row("evaluate 10-template-nested-list.yaml", "error", seconds=1, megabytes=200),
    Row("evaluate 10-template-loop-in.yaml", "error", seconds=1, megabytes=200),
    Row("evaluate 10-template-loop-alloc.yaml", "error", seconds=1, megabytes=200),
    Row("evaluate 10-template-dag.yaml", "error", seconds=1, megabytes=200),
    Row("evaluate 10-template-bytes-times.yaml", "error", seconds=1, megabytes=200),
    Row("evaluate 10-template-block-set.yaml", "error", seconds=1, megabytes=200),
    Row("evaluate 04-template-mark-digits.yaml", "error"),
    Row("evaluate base.yaml", "result"),
    Row("evaluate 16-unicode-names.yaml", "result"),
    Row("evaluate 02-storage-unknown-component-no-tensors.yaml", "error", "no component 'Foo'"),
    Row("evaluate 05-evaluate-26-ranks-of-2to40.yaml", "error", "about 2**1040 points"),
    Row("evaluate 05-evaluate-400-ranks-of-2to40.yaml", "error", "about 2**16000 points"),
    Row("map 05-evaluate-26-ranks-of-2to40.yaml", "error", "too large"),
    Row("evaluate 07-loops-1000.yaml", "result", characters=100_000),
    Row("explain 07-loops-1000.yaml", "result", characters=400_000),
    Row("simulate 07-loops-1000.yaml", "result", "agree"),
    Row("emit 07-loops-1000.yaml", "result"),
    Row("plan-matmul 64 64 64 --dtype fp32 --machine 08-machine-inf-bandwidth.yaml", "result"),
    Row("diff 09-diff-a.yaml 09-diff-b.yaml", "result", "\\x1b]0;pwned"),
    Row("diff 09-diff-bigint-a.yaml 09-diff-bigint-b.yaml", "result", "an integer of about 4817 digits"),
    Row("diff --json 09-diff-bigint-a.yaml 09-diff-bigint-b.yaml", "result", "0xfff"),
    Row("diff 09-diff-einsum-a.yaml 09-diff-einsum-b.yaml", "result", "A[k,m] * B"),
    Row("diff 09-diff-escape-a.yaml 09-diff-markup-a.yaml", "result", "[/x]"),
    Row("evaluate 13-memories-400.yaml", "result", characters=1_000_000),
    Row("map 13-memories-400.yaml", "error", "402 memories and tolls"),
    Row("emit 16-unicode-names.yaml --lang c", "result", "B_ffer"),
    Row("map 06-map-2-ranks-of-2to40.yaml", "result", "proven optimal"),
    Row("map 06-map-4-ranks-of-720720.yaml", "result", "optimal"),
    Row("map 17-uneven.yaml --max-evaluations 5", "result", "not proven optimal"),
    Row("map emit-AssertionError-at-einmap-spec-bind_arch-py-316-dimension.yaml", "error", "no leak_power"),
    Row("map map-IndexError-at-einmap-mapper-pareto-py-50-_best.yaml", "error", "24 bits"),
    Row("emit emit-AssertionError-at-einmap-spec-bind_arch-py-316-dimension.yaml", "refusal", "no mapping given"),
]


def files_of(row):
    return [word for word in row.args.split() if word.endswith(".yaml")]


ATTACKS = {**REACHING, **MULTIPLYING}


@pytest.fixture(scope="module")
def all_ended(tmp_path_factory):
    """What came of each row and of each template, in the third line of a file; one process is forked for each."""
    folder = tmp_path_factory.mktemp("hostile")
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    for position, template in enumerate(ATTACKS.values()):
        (folder / f"{position}.yaml").write_text(f"variables:\n  a: 1\n  b: {template}\n", encoding="utf-8")
    commands = [Command(tuple(row.args.split()), row.seconds) for row in ROWS]
    commands += [Command(("evaluate", f"{position}.yaml"), seconds=2) for position in range(len(ATTACKS))]
    return dict(zip([*ROWS, *ATTACKS], run_all(commands, folder), strict=True))


def check(row, end, files):
    """The promised end; `files` may be named as the place of a problem."""
    said = end.out + end.err
    assert "Traceback" not in said, said[-2000:]
    assert end.status == (0 if row.ends == "result" else 2), (end.status, said[-2000:])
    assert row.says in said
    assert [c for c in said if not c.isprintable() and c != "\n"] == []
    assert len(said) <= row.characters
    assert end.growth <= row.megabytes * MEGABYTE
    if row.ends != "result":
        assert "error: " in end.err
    if row.ends == "error":
        assert re.search(rf"({'|'.join(map(re.escape, files))})( \(rendered\))?:\d+", end.err), end.err


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.args)
def test_a_hostile_file_ends_as_promised(row, all_ended):
    check(row, all_ended[row], files_of(row))


def test_every_hostile_file_has_a_row():
    listed = {file for row in ROWS for file in files_of(row)}
    assert set(FILES) == listed


@pytest.mark.parametrize("name", ATTACKS)
def test_a_template_that_attacks_is_refused(name, all_ended):
    row = Row("", "error", seconds=2, megabytes=200, characters=1500)
    end = all_ended[name]
    check(row, end, [f"{list(ATTACKS).index(name)}.yaml"])
    assert "no mapping given" not in end.err
    assert end.seconds < 1.5
    assert not re.search(r"0x[0-9a-f]{6}|<class|<built-in|built-in method|/site-packages", end.err), end.err


def test_the_corpus_is_large():
    assert len(ATTACKS) + len(FILES) >= 120
