"""What the docstrings of the rewrites show, before -> after, is what happens."""

import inspect
import re
import textwrap

import pytest
from tests.mapping.loop_trees import tree

from einmap import Spec
from einmap.mapping.pretty import pretty
from einmap.mapping.rewrite import branches, loops, stages, storage, tiles
from einmap.mapping.rewrite.text import USAGE, rewritten

MATMUL = {"rank_sizes": {"M": 16, "K": 16, "N": 16}, "einsums": ["Z[m,n] = A[m,k] * B[k,n]"]}
CHAIN = {
    "rank_sizes": {"M": 16, "K": 16, "N": 16},
    "einsums": ["T[m] = A[m,k]", "Y[P:p,N:n] = T[M:p] * D[N:n]"],
}


def workload(text):
    given = CHAIN if "compute T" in text else MATMUL
    return Spec.from_dict({"workload": {**given, "bits_per_value": {"All": 8}}}).workload


def examples():
    for name in USAGE:
        doc = inspect.getdoc(
            next(getattr(m, name) for m in (loops, tiles, storage, branches, stages) if hasattr(m, name))
        )
        for command, block in re.findall(r"^`(.*)`:\n\n((?: +.*\n)+)", doc, re.MULTILINE):
            before, after = textwrap.dedent(block).split("->\n")
            yield pytest.param(command, before.rstrip(), after.rstrip(), id=command)


def test_every_rewrite_has_an_example():
    assert {e.id.split()[0] for e in examples()} == set(USAGE)


@pytest.mark.parametrize(("command", "before", "after"), list(examples()))
def test_a_docstring_shows_before_and_after(command, before, after):
    assert pretty(tree(before)) == before
    assert pretty(rewritten(tree(before), workload(before), command)) == after
