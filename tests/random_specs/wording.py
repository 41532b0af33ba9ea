"""The same random case in other words: expressions, renames, keywords of `tensors`, odd YAML text."""

from __future__ import annotations

import copy
import random
from typing import Any

from tests.random_specs.workloads import Case, chance

from einmap.spec.raw import LiteralString

ODD = (
    *("yes", "no", "~", "~All", "0x10", "1_000", "010", "1e3", "null", "true", ".inf", ">=", "|", ">", "- a", "-", "?"),
    *("a: b", "a #b", "[1, 2][0]", "{1: 2}[1]", "*x", "&x", "!x", "%x", "@x", "`x", "'x'", '"x"', "x,y", "{", "}"),
    *(
        "",
        " x",
        "x ",
        "a\nb",
        "a\n\n  b",
        "tab\there",
        "\x85",
        "\ufeff",
        "ü",
        "\U0001f600",
        "{{ x }}",
        "{% if %}",
        "<<",
    ),
)
"""Texts that YAML or the templates would take for something else if they were written as they are."""

LATENCIES = (
    *("read_latency + 2 * write_latency", "max(read_latency, write_latency)", "sum(*action2latency.values()) + 2e-9"),
    *("max(1e-9, *action2latency.values())", "action2latency['read'] * 3", "1e-9 * (read_actions + write_actions)"),
    *("max(a.n_calls / a.throughput for a in actions)", "sum([a.n_calls for a in actions]) * 2e-9"),
    *("actions['read'].n_calls / actions['read'].throughput", "max(2 * a.n_calls / a.throughput for a in actions)"),
    *("actions[0].n_calls * actions[1].energy", "speed * read_actions", "0", "2.5"),
)
NETWORK_LATENCIES = (
    *("max_hops * 2e-9 + hop_latency", "max(hop_latency, action2latency['hop'])", "1e-9 * hop_actions"),
    *("max(max_hops * actions['hop'].latency, max_link_traffic / actions['hop'].throughput)", "2.5"),
)
TIMES = (
    "0", "1 / (2 * speed)", "1 / speed / 4", "speed * 1e-9", "inf if speed == 0 else 1 / speed", "0.5",
    "1e-9 if Inputs else 2e-9",
)  # fmt: skip


def reworded(rng: random.Random, case: Case, *, has_odd_names: bool = False) -> Case:
    """A case that means something else, perhaps, and that exercises what can be written.

    `has_odd_names`: odd texts stand where they are expressions too, so that the case cannot be evaluated.
    """
    found: Case = copy.deepcopy(case)
    kinds = [LiteralString, str] if has_odd_names else [LiteralString]
    tensors = sorted({t for node in _storages(found["mapping"]["nodes"]) for t in node["tensors"]})
    found["variables"] = {"speed": rng.choice([2, 0.25, "1 + 1", "2 ** 3"]), **_odd_texts(rng, kinds)}
    if chance(rng, 0.6):
        chosen = rng.sample(tensors, min(2, len(tensors)))
        sources = [" | ".join(chosen), chosen, "Inputs - Intermediates"]
        found["renames"] = {"einsums": [{"name": "default", "tensor_accesses": {"some": rng.choice(sources)}}]}
    if chance(rng, 0.3):
        found["arch"]["variables"] = {"wide": "speed * 2", **_odd_texts(rng, kinds)}
    for node in found["arch"]["nodes"]:
        _reword_node(rng, node, tensors, kinds)
    if chance(rng, 0.2):
        found["config"] = {"dialect": rng.choice(["older", "newer", "auto"])}
    if chance(rng, 0.2):
        inner = found["arch"]["nodes"][1:]
        found["arch"]["nodes"][1:] = [{"type": "Hierarchical", "nodes": inner}]
    return found


def _storages(nodes: list[Case]) -> list[Case]:
    found = [node for node in nodes if node["type"] == "Storage"]
    for node in nodes:
        found += _storages(node["nodes"]) if "nodes" in node else []
    return found


def _odd_texts(rng: random.Random, kinds: list[type[str]]) -> Case:
    return {
        f"odd{i}": rng.choice(kinds)(rng.choice(ODD)) if chance(rng, 0.8) else rng.choice([1.5, None, True])
        for i in range(rng.randint(0, 3))
    }


def _reword_node(rng: random.Random, node: Case, tensors: list[str], kinds: list[type[str]]) -> None:
    if node["type"] == "Container":
        node["type"] = rng.choice(["Container", "Fanout"])
        return
    for name in ("skip_initial_output_write", "values_per_action"):
        if chance(rng, 0.8):
            node.pop(name, None)
    if node["type"] == "Toll" and chance(rng, 0.8):
        node["direction"] = "up"
    if node["type"] == "Network":
        _reword_network(rng, node)
        return
    older = chance(rng, 0.5)
    for action in node["actions"]:
        if older:
            del action["throughput"]
            time = rng.choice(TIMES)
            action["latency"] = time
        if chance(rng, 0.2):
            action["latency_scale" if older else "throughput_scale"] = rng.choice([2, "1 / 3", "speed"])
        if chance(rng, 0.2):
            action["energy"] = (
                f"{'latency' if older else 'throughput'} * 1e-3" if action.get("latency") != "0" else "speed"
            )
    if chance(rng, 0.2):
        node[rng.choice(["latency_scale", "throughput_scale"])] = rng.choice([2, "speed", "1 / 4"])
    if chance(rng, 0.2):
        node["extra_attributes_for_component_model"] = {"depth": "speed * 64", **_odd_texts(rng, kinds)}
    if node["type"] == "Memory":
        _reword_memory(rng, node, tensors)


def _reword_network(rng: random.Random, node: Case) -> None:
    """The latency of a hop and its throughput are two things."""
    (hop,) = node["actions"]
    if chance(rng, 0.3):
        hop |= {"latency": rng.choice(["0", "1 / speed"]), "latency_scale": rng.choice([2, "speed"])}
    if chance(rng, 0.3):
        node["latency_scale"] = "speed"
    if chance(rng, 0.3):
        hop["throughput_scale"] = rng.choice([2, "1 / 3"])
    if chance(rng, 0.5):
        node["total_latency"] = rng.choice(NETWORK_LATENCIES)
    if chance(rng, 0.4):
        node["bits_per_value_scale"] = {"Inputs": "speed", "Other": 1}


def _reword_memory(rng: random.Random, node: Case, tensors: list[str]) -> None:
    if chance(rng, 0.5):
        node["total_latency"] = rng.choice(LATENCIES)
    if chance(rng, 0.4):
        node["size"] = rng.choice(["inf", "1024*1024*8", "2**40 if len(All) > 1 else 10**9"])
    if chance(rng, 0.4):
        bits: list[dict[str, Any]] = [
            {"bits_per_value_scale": {"All": 2}},
            {"bits_per_value_scale": {"Inputs": "speed", "Other": 1}},
            {"bits_per_value_scale": {tensors[0]: 0.5, "Other": "2 * speed"}},
            {"bits_per_value": {"Outputs": 16}},
            {"bits_per_value": {tensors[0]: f"2*{tensors[0]}.bits_per_value", "Other & Inputs": 4}},
        ]
        node.pop("bits_per_value", None)
        node.pop("bits_per_value_scale", None)
        node.update(rng.choice(bits))
    if chance(rng, 0.3):
        keep = rng.choice(["All", "~Nothing", " | ".join(tensors), tensors, "Inputs | Outputs"])
        kept = {"keep": keep, "may_keep": "All", "tensor_order_options": [[tensors[0], "Nothing"]]}
        if chance(rng, 0.3):
            kept["tile_shape"] = [{"expression": "All.rank_variables", "operator": ">=", "value": 1}]
        if chance(rng, 0.3):
            kept["no_resend_to_below"] = rng.choice(["~All", "Nothing", tensors[0]])
        node["tensors"] = kept
