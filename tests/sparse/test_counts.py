"""Counts on masks: the simulator against the definition in plain Python, the model against the simulator."""

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from tests.machines import machine, workload
from tests.nests import nest
from tests.sparse.definition import Definition
from tests.sparse.problems import busiest, differences, draw_sparse, modelled, run, simulated

import einmap
from einmap.arch.component import Memory
from einmap.model.evaluate import evaluate, workings_of
from einmap.model.sparsity.rows import sparse_numbers
from einmap.model.sparsity.tiles import tile_rows
from einmap.sparse.known import Known

QUICK, MANY = range(8), range(500)
MOST_POINTS = 1500


def seeds():
    return [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.slow, pytest.mark.simulator]) for n in MANY]


@pytest.mark.parametrize("seed", seeds())
def test_on_known_zeros_model_simulator_and_definition_agree(seed):
    rng = random.Random(seed)
    spec, cost = draw_sparse(rng, known=True)
    zeros = run(spec)
    saves = any(s.saves for s in spec.sparsity.values())
    if saves:
        assert differences(modelled(spec, cost), simulated(spec, zeros)) == {}
    for name in spec.workload.by_name:
        if saves and spec.workload.by_name[name].n_computes <= MOST_POINTS and not takes_over(spec, name):
            judge(spec, name, zeros)
    if saves:
        check_busiest(spec, cost, zeros)
        check_busiest_memories(spec, zeros)


@pytest.mark.parametrize(
    "seed",
    [pytest.param(n, marks=[] if n in (0, 1, 24) else [pytest.mark.slow, pytest.mark.simulator]) for n in range(60)],
)
def test_formats_of_several_levels_take_what_the_simulator_counts(seed):
    rng = random.Random(50_000 + seed)
    spec, _ = draw_sparse(rng, known=True)
    formats = {}
    for memory, tensor in itertools.product(spec.arch().components, spec.sparsity[spec.workload.einsums[0].name].ranks):
        ranks = sorted(spec.bindings.rank_sizes[tensor])
        if ranks and isinstance(spec.arch().components[memory], Memory):
            rng.shuffle(ranks)
            kinds = [rng.choice(["U", "CP", "B", "RLE", "UOP"]) for _ in ranks[1:]] + [rng.choice(["CP", "B", "RLE"])]
            levels = [{"format": kind, "ranks": [rank]} for kind, rank in zip(kinds, ranks, strict=True)]
            formats.setdefault(memory, {})[tensor] = rng.choice(["csr", "csc"]) if len(ranks) == 2 else levels
    sparse = spec.set("sparsity.formats", formats)
    assert differences(modelled(sparse, evaluate(sparse)), simulated(sparse, run(sparse))) == {}


def takes_over(spec, name):
    """Whether an Einsum finds in a buffer what another one left there, which the definition of one Einsum cannot know.

    Where its zeros save anything, the model refuses that.
    """
    for tensor in workings_of(spec).traffic[name].tensors:
        children = {exchange.child.position for exchange in tensor.exchanges}
        if any(t == tensor.access.tensor and position in children for t, position in tensor.charges):
            assert not spec.sparsity[name].saves
            return True
    return False


def judge(spec, name, zeros):
    """Compare what a run counted of an Einsum with the definition."""
    ranks = {t: r for s in spec.sparsity.values() for t, r in s.ranks.items()}
    order = {
        t: tuple(rank for rank, _ in a.written) for e in reversed(spec.workload.einsums) for t, a in e.by_tensor.items()
    }
    masks = {t: m.transpose([order[t].index(r) for r in ranks[t]]) for t, m in zeros.masks.items()}
    judged = Definition(spec, name, masks).run()
    outputs = {a.tensor for a in spec.workload.by_name[name].accesses if a.output}
    for found, right in ((zeros.values, judged.counts), (zeros.metadata, judged.bits)):
        counted = {key[1:]: sum(n.values()) for key, n in found.items() if key[0] == name}
        ours = {k: n for k, n in counted.items() if k[1] not in outputs}
        assert ours == {k: n for k, n in right.items() if k[1] not in outputs}
        for tensor in outputs:
            # memories further in are written by fills, too, which the definition leaves out
            holders = [s.component.name for s in judged.path.stations[tensor]]
            written = {k: n for k, n in right.items() if k[1] == tensor and k[2] == "write" and k[0] == holders[0]}
            if holders.count(holders[0]) == 1:
                assert {k: n for k, n in counted.items() if k[:3] == (holders[0], tensor, "write")} == written


def check_busiest(spec, cost, zeros):
    """Seconds of computes are those of the operations that the busiest one does not skip."""
    operations = busiest(spec, zeros)
    for row in cost.latencies:
        unit = spec.archs[row.einsum].components[row.component]
        if (
            "compute" in unit.actions_by_name
            and unit.total_latency is None
            and not any(d.skew != "none" for leaf in spec.archs[row.einsum].path(unit.name) for d in leaf.spatial)
        ):
            instances = spec.workload.n_instances * spec.workload.by_name[row.einsum].n_instances
            expected = operations[row.einsum] * unit.actions_scale / unit.action("compute").throughput * instances
            assert row.latency == pytest.approx(expected)


def check_busiest_memories(spec, zeros):
    """What the busiest instance of each memory reads and writes, values and metadata, is that of a run."""
    workings = workings_of(spec)
    for name in workings.order:
        if takes_over(spec, name):
            continue
        numbers = sparse_numbers(workings.traffic[name], spec.sparsity[name])
        for component, most in numbers.busiest.items():
            unit = spec.archs[name].components[component]
            for action, expected in (("read", most.read), ("write", most.write)):
                lanes: dict = {}
                for counts, is_metadata in ((zeros.values, False), (zeros.metadata, True)):
                    for (einsum, at, tensor, done, state), by_instance in counts.items():
                        if (einsum, at, done) == (name, component, action) and state < 2:
                            rate = unit.action(action).actions_per_value[tensor]
                            rate /= unit.bits[tensor] if is_metadata else 1
                            for instance, n in by_instance.items():
                                lanes[instance] = lanes.get(instance, 0) + n * rate
                assert max(lanes.values(), default=0) == pytest.approx(expected), (name, component, action)


def test_shared_metadata_of_a_mask_are_those_of_an_average_tile():
    """Rows of A have 0, 1, 2 and 3 nonzeros: a row brings 6 / 4 coordinates of 4 bits on average, with `share`."""
    mask = np.zeros((4, 4), dtype=bool)
    for row, n in enumerate((0, 1, 2, 3)):
        mask[row, :n] = True
    text = (
        machine("Main inf 1/1 @8 / Buffer inf 1/1 @8 / MAC 1 @1")
        + workload("M: 4, N: 2, K: 4", "Z[m, n] = A[m, k] * B[n, k]")
        + nest("Main: A B Z / m 1 / Buffer: A / n 1 / k 1 / Z @ MAC")
        + "\nsparsity: {densities: {A: 0.5}, metadata: share, formats: {Buffer: {A: [{format: CP, ranks: [M, K], bits: 4}]}}}\n"
    )
    spec = einmap.loads(text)
    workings = workings_of(spec)
    known = replace(spec.sparsity["Z"], densities={"A": Known(mask)})
    numbers = sparse_numbers(workings.traffic["Z"], known)
    assert numbers.done["Buffer", "A", "metadata_write"] == 6 * 4  # four rows, of 1.5 coordinates each
    assert numbers.done["Buffer", "A", "metadata_read"] == 2 * 6 * 4
    (row,) = tile_rows(
        workings.traffic["Z"].path, known, {t.access.tensor: t.counts for t in workings.traffic["Z"].tensors}
    )
    assert row[1].expected == 1.5 * (8 + 4)
