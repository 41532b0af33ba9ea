"""Copy Einsums of every form: gathers, scatters, diagonals, constants, across memories, lanes and imperfect tiles."""

import random
from itertools import product

import pytest

import einmap
from einmap.cli.main import main
from einmap.report.executions.comparison import compare

SOURCES = ("i", "i, j", "i+j", "2*i", "i, 2*j+i", "i, i", "3", "i, j, k", "k+2*i, j")
TARGETS = (
    *("i", "i, j", "i+j", "2*i", "2*i, 3*j", "4*i+j", "2*i+j", "i, i", "i, 0", "3-i", "2", "k, j, i"),
    *("i-j+4", "4*i+j, k", "2*i+5*j"),
)
ARCH = """
arch:
  nodes:
  - !Memory {name: Far, size: inf, leak_power: 0, area: 0, actions: &both [
      {name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: 1}]}
  - !Memory {name: Middle, size: inf, leak_power: 0, area: 0, actions: *both}
  - !Memory {name: Near, spatial: [{name: X, fanout: 4}], size: inf, leak_power: 0, area: 0, actions: *both}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
"""


def projection(names: str, indices: str) -> str:
    return "{" + ", ".join(f"{name}: {index}" for name, index in zip(names, indices.split(", "), strict=False)) + "}"


def drawn(rng: random.Random) -> tuple[str, str, dict[str, int], str]:
    """Source, target, extents, and a specification with a mapping."""
    source, target = rng.choice(SOURCES), rng.choice(TARGETS)
    extents = {v: rng.randint(1, 4) for v in "ijk" if v in source + target}
    sizes = ", ".join(f"{v}: 0 <= {v} < {n}" for v, n in extents.items())
    loops = [f"!Temporal {{rank_variable: {v}, tile_shape: {t}}}" for v, n in extents.items() for t in (2, 1) if t < n]
    loops = sorted(rng.sample(loops, len(loops)), key=lambda text: "tile_shape: 1" in text)
    held, beside = rng.choice([("Middle", "A, Z"), ("Near", "Z"), ("Near", "A, Z"), ("Middle", "A")])
    loops.insert(rng.randint(0, len(loops)), f"!Storage {{tensors: [{beside}], component: {held}}}")
    spatial = [n for n, loop in enumerate(loops) if "Temporal" in loop and "tile_shape: 1" in loop]
    if spatial and rng.random() < 0.4:
        n = rng.choice(spatial)
        loops[n] = loops[n].replace("!Temporal", "!Spatial").replace("}", ", name: X, component: Near}")
    homes = (
        [("A", "Far")] if "Z" in beside and rng.random() < 0.5 else [("A", "Far"), ("Z", rng.choice(["Far", "Middle"]))]
    )
    nodes = [
        *(f"!Storage {{tensors: [{t}], component: {m}}}" for t, m in homes),
        *loops,
        "!Compute {einsum: C, component: MAC}",
    ]
    return (
        source,
        target,
        extents,
        f"""{ARCH}
workload:
  bits_per_value: {{All: 1}}
  iteration_space_shape: {{{sizes}}}
  einsums:
  - name: C
    is_copy_operation: true
    tensor_accesses: [{{name: A, projection: {projection("DEF", source)}}},
                      {{name: Z, projection: {projection("PQR", target)}, output: true}}]
mapping:
  nodes: [{", ".join(nodes)}]
""",
    )


def is_definite(source: str, target: str, extents: dict[str, int]) -> bool:
    """Whether each element of the target comes from one of the source, by trying all points."""
    came_from: dict[object, set[object]] = {}
    for point in product(*map(range, extents.values())):
        values = dict(zip(extents, point, strict=True))
        read, written = (eval(f"({indices},)", {}, values) for indices in (source, target))
        came_from.setdefault(written, set()).add(read)
    return all(len(elements) == 1 for elements in came_from.values())


def test_copies_of_every_form_are_executed_as_the_model_counts_or_refused_with_their_place():
    rng = random.Random(23)
    agreed = refused = 0
    for _ in range(75):
        source, target, extents, text = drawn(rng)
        try:
            spec = einmap.loads(text)
            cost = einmap.evaluate(spec, semantics="exact")
        except einmap.EinmapError:
            continue  # the drawn mapping does not fit
        if is_definite(source, target, extents):
            assert compare(spec, cost, einmap.execute(spec)).agrees, text
            agreed += 1
            continue
        refused += 1
        with pytest.raises(einmap.SpecError, match="brings several elements of 'A' to one element of 'Z'") as caught:
            einmap.execute(spec)
        assert caught.value.at.path == 'workload.einsums[0] "C"'
        assert text.splitlines()[caught.value.at.line - 1] == "  - name: C"
        with pytest.raises(einmap.SpecError, match="brings several elements"):
            einmap.emit(spec, "python")
    assert agreed > 20
    assert refused > 20


def test_simulate_refuses_a_copy_without_definite_values(tmp_path, capsys):
    file = tmp_path / "copy.yaml"
    loops = [f"!Temporal {{rank_variable: {v}, tile_shape: 1}}" for v in "ij"]
    stored = ["!Storage {tensors: [A], component: Far}", "!Storage {tensors: [Z], component: Near}"]
    nodes = ", ".join([*stored, *loops, "!Compute {einsum: Z, component: MAC}"])
    einsum = '{einsum: "Z[i] = A[i, j]", is_copy_operation: true}'
    workload = f"workload: {{rank_sizes: {{I: 4, J: 2}}, bits_per_value: {{All: 8}}, einsums: [{einsum}]}}"
    file.write_text(f"{workload}\n{ARCH}\nmapping: {{nodes: [{nodes}]}}\n")
    with pytest.raises(SystemExit) as ended:
        main(["simulate", str(file)])
    assert ended.value.code == 2
    assert f"error: {file}:1:" in (message := capsys.readouterr().err)
    assert "brings several elements of 'A' to one element of 'Z'" in message


@pytest.mark.parametrize(
    ("nodes", "refused"),
    [
        (("Far A", "Near A", "i 2", "Near Z"), "Near"),
        (("Far A", "i 2", "Far Z"), "Far"),
        (("Far A", "Middle Z", "i 2", "Middle A"), "Middle"),
        (("Far A", "Middle A", "Near Z", "i 2", "Near A"), "Near"),
        (("Far A", "Far Z", "i 2"), None),
        (("Far A", "Middle Z", "Middle A", "i 2"), None),
        (("Far A", "Middle A", "i 2", "Near Z"), None),
        (("Far A", "i 4", "Far Z"), None),  # a loop of one iteration separates nothing
    ],
    ids=str,
)
def test_nodes_of_a_copy_in_one_memory_stand_together(nodes, refused):
    written = []
    for node in nodes:
        kind, what = node.split()
        loop = f"!Temporal {{rank_variable: i, tile_shape: {what}}}"
        written.append(loop if kind == "i" else f"!Storage {{component: {kind}, tensors: [{what}]}}")
    written += ["!Temporal {rank_variable: i, tile_shape: 1}", "!Compute {einsum: Z, component: MAC}"]
    workload = (
        '{rank_sizes: {I: 4}, bits_per_value: {All: 8}, einsums: [{einsum: "Z[i] = A[i]", is_copy_operation: true}]}'
    )
    spec = einmap.loads(f"{ARCH}\nworkload: {workload}\nmapping: {{nodes: [{', '.join(written)}]}}\n")
    if refused is None:
        assert compare(spec, einmap.evaluate(spec, semantics="exact"), einmap.execute(spec)).agrees
        return
    with pytest.raises(
        einmap.MappingError, match=f"the loop over 'i' separates nodes of this copy in '{refused}'"
    ) as caught:
        einmap.evaluate(spec)
    assert caught.value.at.path.startswith("mapping.nodes[")
