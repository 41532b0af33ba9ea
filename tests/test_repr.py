"""`repr` of every public object, and of what it holds, is one short line."""

import dataclasses

import pytest

import einmap

CHAIN = einmap.load("simple", "matmul_chain", "simple_matmul_chain_fused")
MATMUL = einmap.load("simple", "matmul", "simple_matmul", define={"M": 64, "K": 64, "N": 64})
MACHINE = einmap.load_machine("chiplet_256")


def objects():
    spread = einmap.load("matmul", "matmul_reduce_scatter", define={"G": 4, "M": 16, "K": 16, "N": 16})
    partial = einmap.PartialMapping(MATMUL.mapping.nodes)
    plan = einmap.plan_of(spread)
    yield from (
        CHAIN,
        CHAIN.workload,
        CHAIN.arch(),
        CHAIN.mapping,
        einmap.evaluate(CHAIN),
        plan,
        plan.mesh,
        einmap.communication(plan),
    )
    yield from (MACHINE, *MACHINE.levels, MACHINE.compute, einmap.plan_matmul(512, 512, 512, MACHINE, dtype="fp16"))
    yield from (einmap.partition(CHAIN.workload, []), partial, einmap.Progress())
    yield from (einmap.engine_named("local"), einmap.JaxOptions())


def held(value, depth, seen):
    if depth < 0 or id(value) in seen:
        return
    seen[id(value)] = value
    if isinstance(value, dict | list | tuple):
        inner = list(value.values() if isinstance(value, dict) else value)[:5]
    else:
        yield value
        inner = [getattr(value, f.name) for f in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
    for one in inner:
        yield from held(one, depth - 1, seen)


def check(value):
    for one in held(value, 3, {}):
        if type(one).__module__.startswith("einmap"):
            shown = repr(one)
            assert len(shown) <= 120, (type(one), shown)
            assert "\n" not in shown


@pytest.mark.parametrize("value", [*objects()], ids=lambda value: type(value).__name__)
def test_repr_is_one_line(value):
    check(value)


def test_repr_of_results():
    check(einmap.map_workload(MATMUL))
    check(einmap.execute(einmap.load("simple", "matmul", "simple_matmul", define={"M": 64, "K": 64, "N": 64})))
    check(einmap.Mapspace(MATMUL.workload.einsums[0], MATMUL.arch(), ()))


def test_repr_says_what_it_is():
    assert repr(CHAIN.workload.einsums[0]).startswith("Einsum(name='")
    assert repr(MACHINE).startswith("Machine(name='chiplet_256', levels=<")


@pytest.mark.parametrize(
    "call",
    [
        einmap.loads,
        einmap.load,
        einmap.Spec.from_dict,
        einmap.machine_from_dict,
        lambda v: CHAIN.set(v, 1),
        lambda v: CHAIN.set("variables.a", v) and 1 / 0,
        lambda v: einmap.map_workload(MATMUL, given=v),
        lambda v: einmap.map_workload(MATMUL, max_fused_loops=v),
    ],
)
@pytest.mark.parametrize(
    "value", [[CHAIN] * 1000, [["a" * 10**5]], {"x" * 10**5: {"a": [1] * 10**5}}], ids=["specs", "text", "dictionary"]
)
def test_errors_print_no_whole_object(call, value):
    with pytest.raises((einmap.EinmapError, ZeroDivisionError)) as caught:
        call(value)
    assert len(str(caught.value)) < 4500
