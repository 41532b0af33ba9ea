"""Mappings in one line, for tests that write many of them."""

from __future__ import annotations

import re

FORMS = (
    (r"(\w+): ([\w ]+)", r"!Storage {tensors: [\2], component: \1}"),
    (r"(\w+) (\w+)", r"!Temporal {rank_variable: \1, tile_shape: \2}"),
    (r"(\w+) (\w+) @ (\w+)\.(\w+)", r"!Spatial {rank_variable: \1, tile_shape: \2, component: \3, name: \4}"),
    (r"(\w+) @ (\w+)", r"!Compute {einsum: \1, component: \2}"),
)
"""What is written for each kind of node, and what it stands for."""


def nest(text: str, pad: str = "  ") -> str:
    """The section `mapping` of a specification in YAML.

    `text`: its nodes from the outside in, with `/` between them: `DRAM: A B` holds tensors, `m 2` is a loop with tiles of
    two, `m 2 @ Array.X` one over lanes, `Z @ MAC` computes; `(m 1 / X @ MAC | Z @ MAC)` are branches; `!...` is YAML.
    """
    return "mapping:\n  nodes:\n" + _nodes(text, pad)


def _nodes(text: str, pad: str) -> str:
    chain, _, branches = text.partition("(")
    lines = [f"{pad}- {_node(word.strip())}\n" for word in chain.split("/") if word.strip()]
    if branches:
        lines.append(f"{pad}- !Sequential\n{pad}  nodes:\n")
        lines += [
            f"{pad}  - !Nested\n{pad}    nodes:\n{_nodes(one, pad + '    ')}" for one in _parts(branches.rstrip())
        ]
    return "".join(lines)


def _node(word: str) -> str:
    for form, node in FORMS:
        if found := re.fullmatch(form, word):
            return re.sub(r"\[.*\]", lambda names: names[0].replace(" ", ", "), found.expand(node))
    assert word.startswith("!"), word
    return word


def _parts(text: str) -> list[str]:
    """Branches of `text`, which ends with the bracket that closes them."""
    parts, depth = [""], 0
    for letter in text[:-1]:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def nest_to_format(text: str) -> str:
    """`nest` of a text, for a specification that `str.format` fills in."""
    return nest(text).replace("{", "{{").replace("}", "}}")
