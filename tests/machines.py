"""Machines and workloads in one line, for tests that write many of them."""

from __future__ import annotations

import re

FIELDS = r"(?: \{(.*)\})?"
MEMORY = re.compile(r"(\w+) (\S+) ([^\s/]+)/(\S+) @([^\s/]+)(?:/(\S+))?" + FIELDS)
COMPUTE = re.compile(r"(\w+) (\S+) @(\S+)" + FIELDS)
FANOUT = re.compile(r"(\w+): (\w+) (\d+)" + FIELDS)


def machine(text: str) -> str:
    """The section `arch` of a specification in YAML.

    `text`: its nodes from the outside in, with ` / ` or line ends between them. `GLB 4096 2/3 @16` is a memory of 4096
    bits, where each read takes 2 J and each write 3 J at 16 a second (`@16/8`: writes at 8); `MAC 1 @2` is a compute with 1 J
    at 2 a second; `Array: X 4` is a fanout. Further fields follow in braces: `MAC 1 @2 {leak_power: 3}`; leakage and
    area are 0 if they are not given. `!...` is YAML.
    """
    nodes = [node.strip() for node in re.split(r" / |\n", text) if node.strip()]
    return "\narch:\n  nodes:\n" + "".join(f"  - {_node(node)}\n" for node in nodes)


def _node(text: str) -> str:
    if found := MEMORY.fullmatch(text):
        name, size, read, write, rate, writes, more = found.groups()
        actions = f"{_action('read', read, rate)}, {_action('write', write, writes or rate)}"
        return f"!Memory {{name: {name}, size: {size}, {_powers(more)}actions: [{actions}]}}"
    if found := COMPUTE.fullmatch(text):
        name, energy, rate, more = found.groups()
        return f"!Compute {{name: {name}, {_powers(more)}actions: [{_action('compute', energy, rate)}]}}"
    if found := FANOUT.fullmatch(text):
        name, dimension, fanout, more = found.groups()
        fields = f", {more}" if more else ""
        return f"!Container {{name: {name}, spatial: [{{name: {dimension}, fanout: {fanout}{fields}}}]}}"
    assert text.startswith("!"), text
    return text


def _action(name: str, energy: str, rate: str) -> str:
    return f"{{name: {name}, energy: {energy}, throughput: {rate}}}"


def _powers(more: str | None) -> str:
    given = more or ""
    return "".join(f"{name}: 0, " for name in ("leak_power", "area") if name not in given) + (given and f"{given}, ")


def workload(sizes: str, *einsums: str, bits: str = "All: 8", more: str = "") -> str:
    """The section `workload` of a specification in YAML: sizes of ranks (`M: 4, K: 2`), Einsums, bits by tensor."""
    listed = ", ".join(f'"{einsum}"' for einsum in einsums)
    return f"\nworkload:\n  rank_sizes: {{{sizes}}}\n  bits_per_value: {{{bits}}}\n{more}  einsums: [{listed}]\n"
