"""Small specifications for tests of the mapper."""

import einmap


def memory(name, size, energy, tensors=None, **more):
    actions = [
        {"name": "read", "energy": energy, "throughput": 4},
        {"name": "write", "energy": energy * 1.5, "throughput": 2},
    ]
    fields = {"type": "Memory", "name": name, "size": size, "leak_power": 0.01, "area": 1, "actions": actions, **more}
    return fields if tensors is None else {**fields, "tensors": tensors}


def compute(**more):
    action = {"name": "compute", "energy": 1, "throughput": 1}
    return {"type": "Compute", "name": "MAC", "leak_power": 0.02, "area": 1, "actions": [action], **more}


def container(*dimensions):
    return {"type": "Container", "name": "Array", "spatial": list(dimensions)}


def spec(nodes, einsums, sizes, **workload):
    return einmap.Spec.from_dict(
        {
            "arch": {"nodes": nodes},
            "workload": {"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": einsums, **workload},
        }
    )


MAIN = memory("Main", "inf", 10, {"keep": "All"})
MATMUL = ["Z[m, n] = A[m, k] * B[k, n]"]
CONV = ["O[m, p] = I[c, H: p + r] * W[m, c, r]"]


def two_level(size=120, sizes=None):
    return spec([MAIN, memory("Buf", size, 1), compute()], MATMUL, sizes or {"M": 4, "K": 4, "N": 2})


def spatial(may_reuse="All", **dimension):
    nodes = [
        MAIN,
        memory("Glb", 400, 2, {"keep": "A | Z", "may_keep": "B"}),
        container({"name": "X", "fanout": 4, "may_reuse": may_reuse, **dimension}),
        memory("Reg", 64, 0.5, {"keep": "Z", "may_keep": "Inputs"}),
        compute(),
    ]
    return spec(nodes, MATMUL, {"M": 4, "K": 6, "N": 4})


def convolution():
    return spec([MAIN, memory("Buf", 250, 1), compute()], CONV, {"M": 2, "C": 2, "P": 4, "R": 3})


def with_toll():
    toll = {
        "type": "Toll",
        "name": "Link",
        "direction": "up_and_down",
        "leak_power": 0,
        "area": 0,
        "tensors": {"keep": "A | Z"},
        "actions": [{"name": "read", "energy": 0.25, "throughput": 8}],
    }
    return spec([MAIN, toll, memory("Buf", 200, 1), compute()], MATMUL, {"M": 4, "K": 4, "N": 2})


def gated():
    nodes = [
        MAIN,
        memory("Glb", 400, 2, {"keep": "All"}),
        container({"name": "X", "fanout": 4, "power_gateable": True}, {"name": "Y", "fanout": 2}),
        compute(total_latency="2 * compute_actions + 1"),
    ]
    return spec(nodes, MATMUL, {"M": 4, "K": 2, "N": 4})


SPECS = {
    "two levels": two_level,
    "lanes with reuse": spatial,
    "lanes without reuse": lambda: spatial(may_reuse="Nothing"),
    "convolution": convolution,
    "toll": with_toll,
    "power gating": gated,
}
