"""What a random case exercises."""

from __future__ import annotations

import re

from tests.random_specs.workloads import Case


def features(case: Case) -> frozenset[str]:
    """Names of what a case has, for counts of coverage."""
    found = set()
    einsums = case["workload"]["einsums"]
    found.add(f"{len(einsums)} Einsums")
    found |= {"workload n_instances"} if "n_instances" in case["workload"] else set()
    found |= {"bounded space"} if "iteration_space_shape" in case["workload"] else set()
    for e in einsums:
        found |= {"copy"} if e.get("is_copy_operation") else set()
        found |= {"Einsum n_instances"} if "n_instances" in e else set()
        found.add(e.get("reduction", "sum"))
        text = e.get("einsum") or " ".join([e["operation"], *map(str, e["tensor_accesses"])])
        found.add("concise" if "einsum" in e else "verbose")
        found |= {word for word in ("exp", "relu", "sigmoid", "/", "max(") if word in text}
        found |= {"stride"} if re.search(r"[23]\*p", text) else set()
        found |= {"dilation"} if re.search(r"[23]\*[rs]", text) else set()
        found |= {"backwards"} if re.search(r"p\w* - ", text) else set()
    for node in case["arch"]["nodes"]:
        found.add(node["type"])
        found |= {node["direction"]} if isinstance(node.get("direction"), str) else set()
        found |= {
            key
            for key in ("bits_per_action", "values_per_action", "bits_per_value", "bits_per_value_scale")
            if key in node
        }
        found |= {f"lanes of {node['type']}"} if node.get("spatial") else set()
        if "skip_initial_output_write" in node:
            found.add(f"{node['type']} skip {node['skip_initial_output_write']}")
        for dimension in node.get("spatial", ()):
            reuse = dimension.get("may_reuse")
            found.add(
                "reuse" if "reuse" in dimension else f"may_reuse {reuse if reuse in ('All', 'Nothing') else 'some'}"
            )
    memories = sum(node["type"] == "Memory" for node in case["arch"]["nodes"])
    found.add(f"{memories} memories")
    _tree_features(case["mapping"]["nodes"], found, 0, {e["name"]: i for i, e in enumerate(einsums)})
    return frozenset(found)


def _tree_features(nodes: list[Case], found: set[str], splits: int, order: dict[str, int]) -> None:
    below = nodes[-1]["type"] == "Sequential"
    for node in nodes:
        kind = node["type"]
        if kind in ("Temporal", "Spatial"):
            found.add(f"{kind} loop" + (" above a split" if below else ""))
            variables = node["rank_variable"]
            if isinstance(variables, dict) and len(set(variables.values())) > 1:
                found.add("loop over different variables")
            shapes = node["tile_shape"]
            found |= {"initial tile shape"} if "initial_tile_shape" in node else set()
            if isinstance(shapes, dict) and len(set(shapes.values())) > 1:
                found.add("loop with different tile shapes")
        elif kind == "Storage":
            if node.get("persistent"):
                found.add("persistent")
            if below and node["component"] != "Main":
                found.add("inner storage above a split")
            if below and any(n["type"] in ("Temporal", "Spatial") for n in nodes[: nodes.index(node)]):
                found.add("storage between shared loops and a split")
        elif kind == "Toll":
            found.add("Toll node" + (" above a split" if below else ""))
        elif kind == "Sequential":
            found.add("nested split" if splits else "split")
            for branch in node["nodes"]:
                _tree_features(branch["nodes"], found, splits + 1, order)


def shown(case: Case) -> str:
    """A case in short lines, for messages."""
    workload = case["workload"]
    lines = [str({k: v for k, v in workload.items() if k != "einsums"}), *map(str, workload["einsums"])]
    lines += [f"arch {node}" for node in case["arch"]["nodes"]]

    def show(nodes: list[Case], indent: str) -> None:
        for node in nodes:
            if node["type"] == "Sequential":
                for branch in node["nodes"]:
                    lines.append(f"{indent}branch")
                    show(branch["nodes"], indent + "  ")
            else:
                lines.append(indent + " ".join(str(value) for value in node.values()))

    show(case["mapping"]["nodes"], "")
    return "\n".join(lines)
