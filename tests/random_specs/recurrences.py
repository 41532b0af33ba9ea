"""Random cascades with a recurrence, and mappings of them."""

from tests.random_specs.networks import HANDED_ON, ROUND, TOPOLOGIES, network

import einmap


def with_networks(rng, arch):
    """Put one network, or two, somewhere below the main memory."""
    for number in range(rng.choice((1, 1, 2))):
        noc = network(rng, f"Noc{number}", (*TOPOLOGIES, *ROUND, *HANDED_ON))
        if "bits_per_value" in noc:
            noc["bits_per_value"] = {"Intermediates": 16, "Other": 8}
        arch["nodes"].insert(rng.randrange(1, len(arch["nodes"])), noc)


def architecture(rng=None):
    """Main memory, a buffer, and registers next to a row of computes."""
    rate = (lambda: "inf") if rng is None else (lambda: rng.choice([1, 2, 8, "inf"]))

    def memory(name, size, energy, **fields):
        actions = [{"name": name, "energy": energy, "throughput": rate()} for name in ("read", "write")]
        return {"type": "Memory", "name": name, "size": size, "leak_power": 0, "actions": actions, **fields}

    reuse = "All" if rng is None else rng.choice(["All", "All", "Nothing"])
    return {
        "nodes": [
            memory("Main", "inf", 10, tensors={"keep": "~Intermediates", "may_keep": "All"}),
            memory("Buffer", 10_000, 1, tensors={"may_keep": "All"}),
            {"type": "Container", "name": "Row", "spatial": [{"name": "X", "fanout": 4, "may_reuse": reuse}]},
            memory("Register", 10_000, 0.1, tensors={"may_keep": "All"}),
            {
                "type": "Compute",
                "name": "MAC",
                "leak_power": 0,
                "actions": [{"name": "compute", "energy": 1, "throughput": 1}],
            },
        ]
    }


def cascade(rng):
    """Einsums before, in and behind a recurrence, with the number of the first and the last one in it."""
    b = rng.choice(["", "b, "])
    inside = [f"R[t, {b}n] = H[S: t, {b}M: m] * U[m, n]"]
    match rng.randrange(4):
        case 0:
            inside += [f"H[S: t + 1, {b}M: n] = P[t, {b}n] + R[t, {b}n]"]
        case 1:
            inside += [f"F[t, {b}n] = P[t, {b}n] - R[t, {b}n]", f"D[t, {b}n] = F[t, {b}n] * C[S: t, {b}n]"]
            inside += [
                f"C[S: t + 1, {b}n] = D[t, {b}n] + R[t, {b}n]",
                f"H[S: t + 1, {b}M: n] = max(C[S: t + 1, {b}n], 1)",
            ]
        case 2:
            inside += [f"Q[t, {b}n] = X[t, {b}k] * W[k, n]", f"H[S: t + 1, {b}M: n] = Q[t, {b}n] + R[t, {b}n]"]
        case 3:
            inside = [f"R[t, {b}n] = H[S: t, {b}M: m] * U[m, n] * 0.5"]
            inside += [f"H[S: t + {rng.randrange(1, 4)}, {b}M: n] = P[t, {b}n] + R[t, {b}n]"]
    before = [f"P[t, {b}n] = X[t, {b}k] * W[k, n]"] if "P[" in "".join(inside) and rng.random() < 0.6 else []
    last = inside[-1].split("=")[0].split(":")[1].split(",")[0].strip()
    behind = [f"Y[t, {b}n] = H[S: {last}, {b}M: n] * V[n]"] if rng.random() < 0.5 else []
    return [*before, *inside, *behind], len(before), len(before) + len(inside)


def draw(rng, networks=False, ending=False):
    """A specification, as a dictionary; it need not be valid. `ending`: what is behind reads the last step alone."""
    einsums, begin, end = cascade(rng)
    sizes = {"T": rng.randint(1, 5), "N": rng.randint(1, 4), "B": rng.randint(1, 3), "K": rng.randint(1, 3)}
    sizes |= {"M": sizes["N"]}
    if ending:
        b, lag = "b, " * ("b, n]" in einsums[0]), "".join(einsums[begin:end]).split("H[S: t + ")[1].split(",")[0]
        einsums = [*einsums[:end], f"Y[{b}n] = H[S: {sizes['T'] - 1 + int(lag)}, {b}M: n] * V[n]"]
    text = " ".join(einsums)
    sizes = {rank: size for rank, size in sizes.items() if rank == "T" or rank.lower() in text}
    time = {"t": f"0 <= t < {sizes.pop('T')}"}
    workload = {"rank_sizes": sizes, "iteration_space_shape": time, "einsums": einsums}
    workload["bits_per_value"] = {"All": rng.choice([1, 8])}
    if rng.random() < 0.2:
        workload["n_instances"] = 2
    spec = einmap.Spec.from_dict({"arch": architecture(rng), "workload": workload})
    case = {
        "arch": architecture(rng),
        "workload": workload,
        "mapping": {"nodes": mapping(rng, spec, begin, end, ending)},
    }
    if networks:
        with_networks(rng, case["arch"])
    return case


def mapping(rng, spec, begin, end, ending=False):
    workload = spec.workload
    names = list(workload.einsum_names)
    begin -= begin and rng.random() < 0.5
    inside = names[begin : end + (not ending and rng.random() < 0.5)]
    behind = names[begin + len(inside) :]
    inner = [t for t in sorted(workload.intermediates) if set(workload.users[t]) <= set(inside)]
    stepwise = [t for t in inner if rng.random() < 0.5]
    whole = [t for t in sorted(workload.intermediates) if t not in stepwise and rng.random() < 0.3]
    main = [t for t in workload.tensors if t not in [*stepwise, *whole]]
    held = [t for t in main if t not in workload.intermediates and rng.random() < 0.3]
    nodes = [storage("Main", main), *([storage("Buffer", [*whole, *held])] if whole or held else [])]
    if ending and "b" in workload.by_name[inside[0]].extents and rng.random() < 0.6:
        nodes.insert(
            rng.choice((1, 1, len(nodes))), loop("b", rng.randint(1, workload.by_name[inside[0]].extents["b"]))
        )
    kept = {*whole, *held, *stepwise}
    nest = []
    if "b" in workload.by_name[inside[0]].extents and rng.random() < 0.3:
        nest.append(loop("b", rng.randint(1, workload.by_name[inside[0]].extents["b"])))
    nest.append(loop("t", 1 if rng.random() < 0.95 else 2))
    nest += [storage("Buffer", stepwise)] if stepwise else []
    if rng.random() < 0.3:
        nest.append(loop("n", rng.randint(1, workload.by_name[inside[0]].extents["n"])))
    nest.append({"type": "Sequential", "nodes": [branch(rng, workload.by_name[name], kept) for name in inside]})
    branches = [branch(rng, workload.by_name[name], kept, time=True) for name in names[:begin]]
    branches.append({"type": "Nested", "nodes": nest})
    branches += [branch(rng, workload.by_name[name], kept, time=True) for name in behind]
    return [*nodes, *(nest if len(branches) == 1 else [{"type": "Sequential", "nodes": branches}])]


def branch(rng, einsum, kept, time=False):
    """Loops of one Einsum with storage nodes between them; `kept`: what the buffer holds already."""
    loops = []
    for variable, extent in einsum.bounds:
        if variable == "t" and not time:
            continue
        if extent > 1 and rng.random() < 0.4:
            loops.append(loop(variable, rng.randint(1, extent)))
        loops.append(loop(variable, 1))
    rng.shuffle(loops)
    loops.sort(key=lambda node: node["tile_shape"] == 1)
    in_buffer = [t for t in sorted(einsum.tensors) if t not in kept and rng.random() < 0.5]
    in_register = [t for t in sorted(einsum.tensors) if rng.random() < 0.4]
    first, second = sorted(rng.randint(0, len(loops)) for _ in range(2))
    lanes = []
    for node in loops[first:second]:
        if node["tile_shape"] == 1 and rng.random() < 0.3:
            lanes.append(node)
    for node in lanes:
        loops.remove(node)
        second -= 1
    lanes = [{**node, "type": "Spatial", "component": "Row", "name": "X"} for node in lanes[:1]] + lanes[1:]
    lanes.reverse()
    nodes = loops[:first]
    nodes += [storage("Buffer", in_buffer)] if in_buffer else []
    nodes += [*loops[first:second], *lanes]
    nodes += [storage("Register", in_register)] if in_register else []
    nodes += [*loops[second:], {"type": "Compute", "einsum": einsum.name, "component": "MAC"}]
    return {"type": "Nested", "nodes": nodes}


def loop(variable, shape):
    return {"type": "Temporal", "rank_variable": variable, "tile_shape": shape}


def storage(memory, tensors):
    return {"type": "Storage", "component": memory, "tensors": tensors}


def valid_recurrence(rng, networks=False, ending=False):
    """A random specification with a mapping that is valid, with its cost."""
    while True:
        try:
            spec = einmap.Spec.from_dict(draw(rng, networks, ending))
            return spec, einmap.evaluate(spec)
        except einmap.MappingError:
            continue
