"""Mutations of texts and of trees, drawn from a random number generator."""

import copy
import re

from tests.catalogue.test_mutants import ODD, SCALAR

HUGE = "9" * 4000
MORE = [
    "1099511627776", "2**40", "2**53", "2**63", "2**64-1", "-2**63", "1e15", "1e16", "1e-320", HUGE, f"-{HUGE}", f"0x{'f' * 3000}", "1e400",
    "((((((((1))))))))", "factorial(20)", "sum([1,2])", "[i for i in range(10)]", "max(1, 2)", "A[m]", "m+1", "2*m + k", "-m", "m*k", "m//2",
    "\\x1b[31m", "[red]x[/y]", "{{ '' * 10 }}", "{{ range(10)|join }}", "{% set x = 1 %}", "{{ x|string }}", "include('a')", "a" * 3000,
    "\u202eabc", "M\u0430in", "e\u0301", "[" * 200, "!Toll {}", "!Fork", "!Array", "!Nested", "!Sequential", "!Any {}", "inputs", "Z: 1",
    "sliding_window", "persistent", "initial_tile_shape: 2", "4.0", "'4'", "m: 4", "{m: 4, k: 2}", "N0", "P", "Q", "h", "b", "R",
]  # fmt: skip
VALUES = [
    None, True, False, 0, 1, -1, 2, 3, 7, 16, 64, 2**20, 2**40, 2**40 + 1, 2**62, 2**64, 10**400, 0.0, -0.0, 0.5, 1.5, -2.5, 1e308, 1e-308,
    float("inf"), float("-inf"), float("nan"), "", [], {}, [[]], [{}], {"a": {}}, "x" * 3000, [1] * 50, {"name": "A"},
]  # fmt: skip
WORD = re.compile(r"[A-Za-z_]\w*")
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def odd(rng):
    return rng.choice(ODD if rng.random() < 0.6 else MORE)


def text_of(rng, text):
    """One to three mutations of a text."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        text = _text(rng, text) or "\n"
    return text[:100_000]


def _text(rng, text):
    lines = text.splitlines(keepends=True) or ["\n"]
    index = rng.randrange(len(lines))
    kind = rng.choice(
        (
            "value", "value", "value", "number", "number", "word", "word", "odd", "drop", "double", "move", "indent",
            "character", "cut", "repeat",
        )
    )  # fmt: skip
    match kind:
        case "value":
            return _replaced(rng, text, SCALAR, odd(rng))
        case "number":
            return _replaced(rng, text, NUMBER, odd(rng) if rng.random() < 0.3 else str(rng.choice(VALUES[3:14])))
        case "word":
            words = WORD.findall(text) or ["x"]
            return _replaced(rng, text, WORD, rng.choice(words))
        case "odd":
            return _replaced(rng, text, WORD, odd(rng))
        case "drop":
            del lines[index]
        case "double":
            lines.insert(rng.randrange(len(lines) + 1), lines[index])
        case "move":
            lines.insert(rng.randrange(len(lines)), lines.pop(index))
        case "indent":
            lines[index] = rng.choice(("  ", " ", "- ", "\t")) + lines[index]
        case "character":
            at = rng.randrange(len(text) + 1)
            return (
                text[:at] + rng.choice((chr(rng.randrange(1, 128)), chr(rng.randrange(1, 0xD7FF)), "")) + text[at + 1 :]
            )
        case "cut":
            at = rng.randrange(len(text) + 1)
            return text[:at] + text[at + rng.randrange(1, 30) :]
        case "repeat":
            lines[index] *= rng.choice((2, 10, 100))
    return "".join(lines)


def _replaced(rng, text, pattern, by):
    found = list(pattern.finditer(text))
    if not found:
        return text + by
    one = rng.choice(found)
    return text[: one.start()] + by + text[one.end() :]


def tree_of(rng, tree):
    """One to three mutations of a tree of dictionaries and lists."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 2, 3))):
        _tree(rng, tree)
    return tree


def _places(tree, found):
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in entries:
        found.append((tree, key))
        if isinstance(value, dict | list):
            _places(value, found)
    return found


def _tree(rng, tree):
    places = _places(tree, [])
    if not places:
        return
    (holder, key), (other, name) = rng.choice(places), rng.choice(places)
    match rng.choice(
        ("value", "value", "value", "odd", "odd", "number", "number", "drop", "copy", "copy", "key", "double", "text")
    ):
        case "value":
            holder[key] = copy.deepcopy(rng.choice(VALUES))
        case "odd":
            holder[key] = odd(rng)
        case "number":
            numbers = [(h, k) for h, k in places if isinstance(h[k], int | float) and not isinstance(h[k], bool)]
            if numbers:
                holder, key = rng.choice(numbers)
                holder[key] = rng.choice((holder[key] + 1, holder[key] * 2, -holder[key], *VALUES[3:27]))
        case "drop":
            del holder[key]
        case "copy":
            holder[key] = copy.deepcopy(other[name])
        case "key" if isinstance(holder, dict):
            holder[rng.choice((odd(rng), str(name), "x"))] = holder.pop(key)
        case "double" if isinstance(holder, list):
            holder.insert(rng.randrange(len(holder) + 1), copy.deepcopy(holder[key]))
        case "text" if isinstance(holder[key], str):
            holder[key] = text_of(rng, holder[key])
