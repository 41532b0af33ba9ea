"""Rows 101 to 128: mapping and mapper."""

from tests.catalogue.cases import BASE, error, warning

HELD = "  - !Storage {component: Main, tensors: [A, B, C]}\n"
LANES = "  - !Spatial {rank_variable: m, tile_shape: 2, component: Array, name: X}\n"
INNER = "  - !Storage {component: Buffer, tensors: [A]}\n"
M1 = "  - !Temporal {rank_variable: m, tile_shape: 1}\n"
N1 = "  - !Temporal {rank_variable: n, tile_shape: 1}\n"
UNIT = "  - !Compute {einsum: C, component: MAC}\n"
TREE = BASE[BASE.index("mapping:\n") :]
TWO = BASE.replace(TREE, "").replace(
    '  - name: C\n    einsum: "C[m,n] = A[m,k] * B[k,n]"\n', '  - "C[m] = A[m,k]"\n  - "D[m] = C[m]"\n'
)
PRICES = (
    "leak_power: 0, area: 0, actions: [{name: read, energy: 3, throughput: 2}, {name: write, energy: 5, throughput: 3}]"
)
SLOW = f"""\
arch:
  nodes:
  - !Memory {{name: Main, size: inf, tensors: {{keep: All}}, {PRICES}}}
  - !Memory {{name: Buffer, size: 40000, {PRICES}}}
  - !Container {{name: Array, spatial: [{{name: X, fanout: 4}}]}}
  - !Memory {{name: Register, size: 64, {PRICES}}}
  - !Compute {{name: MAC, leak_power: 0, area: 0, actions: [{{name: compute, energy: 1, throughput: 1}}]}}
workload:
  rank_sizes: {{M: 64, K: 64}}
  bits_per_value: {{All: 8}}
  einsums: ["C[m] = A[m,k] * B[m,k] * D[m,k] * E[m,k]"]
mapper:
  metrics: latency
  time_limit: 0.2
"""
"""Five tensors in three memories: millions of ways to hold them, which by latency take far longer than the limit."""


def before(node, text):
    """Another node above one of the mapping."""
    return [(node, f"  - {text}\n{node}")]


def instead(node, text):
    return [(node, f"  - {text}\n")]


def split(first, second, above=("!Storage {component: Main, tensors: [A, C, D]}",)):
    """Two Einsums in two branches."""
    lines = ["mapping:", "  nodes:", *(f"  - {node}" for node in above), "  - !Sequential", "    nodes:"]
    for branch in (first, second):
        lines += ["    - !Nested", "      nodes:", *(f"      - {node}" for node in branch)]
    return TWO + "\n".join(lines) + "\n"


FIRST = [
    "!Temporal {rank_variable: k, tile_shape: 1}",
    "!Temporal {rank_variable: m, tile_shape: 1}",
    "!Compute {einsum: C, component: MAC}",
]
SECOND = ["!Temporal {rank_variable: m, tile_shape: 1}", "!Compute {einsum: D, component: MAC}"]


def at(index):
    return f"mapping.nodes[{index}]"


LOOP = at(1) + ' "X"'

ROWS = [
    error(101, "unknown tag", before(M1, "!Loop {rank_variable: m}"), ["unknown mapping node", "!Loop", "Temporal"], at(3)),
    error(102, "n_iterations", instead(M1, "!Temporal {rank_variable: m, n_iterations: 4}"), ["n_iterations", "tile_shape"], f"{at(3)}.n_iterations"),
    error(102, "near miss", instead(M1, "!Temporal {rank_variable: m, tile_shap: 1}"), ["unknown field 'tile_shap'", "did you mean 'tile_shape'"], f"{at(3)}.tile_shap"),
    error(103, "no mapping", [(TREE, "")], ["no mapping", "mapping:", "mapper"], on=False),
    error(103, "no nodes", [(TREE, "mapping:\n  nodes: []\n")], ["nothing to evaluate", "list of nodes"], "mapping.nodes", on="nodes: []"),
    error(104, "no loop", [(N1, "")], ["'n'", "'C'", "tile shape 1", "innermost tile 4", "add a loop over n"], at(5), on="!Compute {"),
    error(104, "not down to one", instead(N1, "!Temporal {rank_variable: n, tile_shape: 2}"), ["'n'", "'C'", "innermost tile 2"], at(6), on="!Compute {"),
    error(105, "larger than the extent", before(M1, "!Temporal {rank_variable: n, tile_shape: 100}"), ["tile shape 100", "'n'", "extent 4"], at(3)),
    error(106, "grows inward", [(N1, N1 + "  - !Temporal {rank_variable: n, tile_shape: 2}\n")], ["tile shape 2", "'n'", "grows inward", "1"], at(5), on="{rank_variable: n, tile_shape: 2}"),
    *(
        error(107, f"tile shape {shape}", instead(N1, f"!Temporal {{rank_variable: n, tile_shape: {shape}}}"), ["tile shape", says, shape], f"{at(4)}.tile_shape")
        for shape, says in (("0", ">= 1"), ("-2", ">= 1"), ("1.5", "integer"))
    ),
    error(108, "unknown variable", before(M1, "!Temporal {rank_variable: zz, tile_shape: 1}"), ["'zz'", "not a rank variable", "'C'", "k, m, n"], at(3)),
    error(109, "a rank for a variable", instead(M1, "!Temporal {rank_variable: M, tile_shape: 1}"), ["'M'", "did you mean 'm'"], at(3)),
    error(110, "unknown tensor", instead(HELD, "!Storage {component: Main, tensors: [A, B, C, QQ]}"), ["no tensor 'QQ'", "A, B, C"], at(0)),
    error(111, "held nowhere", instead(HELD, "!Storage {component: Main, tensors: [A, B]}"), ["'C'", "no memory holds tensor 'C'"], at(6), on="!Compute {"),
    error(112, "unknown component", instead(INNER, "!Storage {component: GLB, tensors: [A]}"), ["'GLB'", "no component", "Buffer"], at(2)),
    error(112, "near miss", instead(INNER, "!Storage {component: Bufer, tensors: [A]}"), ["'Bufer'", "did you mean 'Buffer'"], at(2)),
    error(112, "unknown Compute", instead(UNIT, "!Compute {einsum: C, component: MACS}"), ["'MACS'", "no component", "did you mean 'MAC'"], at(6)),
    error(113, "Storage in a Compute", instead(INNER, "!Storage {component: MAC, tensors: [A]}"), ["Storage", "'MAC'", "is a Compute", "Memory"], at(2)),
    error(113, "Compute on a Memory", instead(UNIT, "!Compute {einsum: C, component: Main}"), ["'Main'", "is a Memory", "Compute"], at(6)),
    error(
        113,
        "Storage node for a Toll",
        [(INNER, "  - !Storage {component: Link, tensors: [A]}\n"), ("  - !Compute\n", "  - !Toll {name: Link, direction: up, component_class: Dummy}\n  - !Compute\n")],
        ["Storage", "'Link'", "is a Toll", "Memory"],
        at(2),
    ),
    error(114, "unknown Einsum", instead(UNIT, "!Compute {einsum: CC, component: MAC}"), ["no Einsum 'CC'", "did you mean 'C'"], at(6)),
    error(114, "mapped twice", split(FIRST, FIRST), ["'C'", "mapped twice"], "mapping.nodes[1].nodes[1].nodes[2]", on=False),
    error(114, "not mapped", split(FIRST, FIRST), ["'D'", "not mapped"], "mapping", on=False),
    error(115, "no Compute", [(UNIT, "")], ["end", "one Compute"], at(5), on="{rank_variable: k"),
    error(115, "Compute not last", [(UNIT, UNIT + "  - !Temporal {rank_variable: n, tile_shape: 2}\n")], ["nothing may follow", "Compute"], at(7), on="tile_shape: 2}"),
    error(115, "two computes", [(UNIT, UNIT + "  - !Compute {component: MAC, einsum: C}\n")], ["nothing may follow", "Compute"], at(7), on="{component: MAC"),
    error(116, "held twice", before(M1, "!Storage {component: Main, tensors: [A]}"), ["'A'", "twice", "'Main'"], at(3)),
    error(116, "listed twice", instead(HELD, "!Storage {component: Main, tensors: [A, A, B, C]}"), ["'A'", "twice"], at(0)),
    error(
        117,
        "one tensor out of order",
        [(HELD, "  - !Storage {component: Buffer, tensors: [A]}\n" + HELD), (LANES + INNER, "")],
        ["'A'", "'Main'", "'Buffer'", "hierarchy"],
        at(1),
        on="component: Main, tensors",
    ),
    warning(
        117,
        "two tensors out of order",
        [(HELD, "  - !Storage {component: Main, tensors: [A, B]}\n"), (M1, "  - !Storage {component: Main, tensors: [C]}\n" + M1), (LANES, "")],
        ["Main", "Buffer", "hierarchy"],
        at(2),
        on="tensors: [C]",
    ),
    error(118, "unknown dimension", [(LANES, LANES.replace("name: X", "name: Y"))], ["'Y'", "'Array'", "dimension", "X"], at(1) + ' "Y"'),
    error(118, "no dimensions", [(LANES, LANES.replace("Array", "MAC"))], ["'X'", "'MAC'", "dimension"], LOOP),
    error(119, "more instances than the fanout", [(LANES, LANES.replace("tile_shape: 2", "tile_shape: 1"))], ["4 instances", "Array.X", "fanout is 2"], LOOP),
    error(
        120,
        "memory too small",
        [("    size: width*depth\n", "    size: 63\n")],
        ["'Buffer'", "64 bits", "holds 63", "A 64", "mapping.nodes[2]", "tile shape"],
        at(2),
        on="component: Buffer, tensors",
    ),
    error(121, "Nested in the middle", [(HELD, "  - !Nested {nodes: [!Compute {einsum: C, component: MAC}]}\n" + HELD)], ["nothing may follow", "Nested", "last"], at(1), on="component: Main, tensors"),
    error(
        121,
        "node after a split",
        split(FIRST, SECOND) + "  - !Temporal {rank_variable: m, tile_shape: 2}\n",
        ["nothing may follow", "Sequential"],
        at(2),
        on="tile_shape: 2}",
    ),
    error(
        122,
        "bare Compute in a split",
        TWO + "mapping:\n  nodes:\n  - !Storage {component: Main, tensors: [A, C, D]}\n  - !Sequential\n    nodes:\n    - !Compute {einsum: C, component: MAC}\n",
        ["!Nested", "wrap"],
        "mapping.nodes[1].nodes[0]",
        on="!Compute {einsum",
    ),
    error(123, "consumer first", split(SECOND, FIRST), ["'D'", "'C'", "before", "order of the branches"], "mapping.nodes[1].nodes[0].nodes[1]", on="einsum: D"),
    error(
        124,
        "backed in two places",
        split(
            ["!Storage {component: Buffer, tensors: [C]}", *FIRST],
            ["!Storage {component: Main, tensors: [C]}", *SECOND],
            above=["!Storage {component: Main, tensors: [A, D]}"],
        ),
        ["'C'", "'Buffer'", "'Main'", "'D'"],
        on=False,
    ),
    *(
        case(125, f"{name}", changes, says, path, on=on, run=run)
        for case, run in ((warning, "evaluate"), (error, "strict"))
        for name, changes, says, path, on in (
            ("keep", [("      keep: Nothing\n", "      keep: B\n")], ["'C'", "Buffer must keep 'B'"], at(6), "!Compute {einsum"),
            ("may_keep", [("      may_keep: All\n", "      may_keep: B\n")], ["'C'", "Buffer may not keep 'A'"], at(2), "component: Buffer, tensors"),
            ("reuse", [("      fanout: 2\n", "      fanout: 2\n      reuse: A\n")], ["Array.X", "must reuse 'A'", "m"], LOOP, "name: X}"),
            ("min_usage", [("      fanout: 2\n", "      fanout: 4\n      min_usage: 1\n")], ["Array.X", "used to 0.5", "min_usage is 1"], LOOP, "name: X}"),
            (
                "loop_bounds",
                [("      fanout: 2\n", '      fanout: 2\n      loop_bounds: [{expression: m, operator: "==", value: 1}]\n')],
                ["Array.X", "loop_bounds", "m == 1"],
                LOOP,
                "component: Array, name: X}",
            ),
            (
                "tile_shape",
                [("      keep: Nothing\n", '      keep: Nothing\n      tile_shape: [{expression: k, operator: "<=", value: 2}]\n')],
                ["Buffer", "tile_shape", "k <= 2", "k 4"],
                at(2),
                "component: Buffer, tensors",
            ),
            ("enabled", [("    size: width*depth\n", "    size: width*depth\n    enabled: false\n")], ["Buffer", "not enabled", "'C'"], at(6), "!Compute {einsum"),
        )
    ),
    error(126, "unknown metric", BASE + "mapper:\n  metrics: FOO\n", ["'FOO'", "energy", "latency"], "mapper.metrics", on="FOO", run="map"),
    error(126, "unknown option", BASE + "mapper:\n  max_fused_loop: 1\n", ["unknown field 'max_fused_loop'", "did you mean 'max_fused_loops'"], "mapper.max_fused_loop", on="max_fused_loop", run="map"),
    error(
        127,
        "everything over capacity",
        [("      keep: Nothing\n", "      keep: All\n"), ("    size: width*depth\n", "    size: 20\n")],
        ["'C'", "no mapping", "A 8 bits + B 8 bits + C 8 bits = 24 bits at Buffer", "it holds 20 bits", "24 bits instead of 20", "dataplacements"],
        'arch.nodes[2] "Buffer".size',
        run="map",
        on="size: 20",
    ),
    warning(128, "time is up", SLOW, ["stopped after", "mappings"], "mapper.time_limit", on="time_limit", run="map"),
    warning(128, "no time at all", BASE + "mapper:\n  time_limit: 0\n", ["stopped after", "choices"], "mapper.time_limit", on="time_limit", run="map"),
    error(128, "negative time", BASE + "mapper:\n  time_limit: -1\n", ["time_limit", "not negative", "-1"], "mapper.time_limit", on="time_limit", run="map"),
    error(
        127,
        "no choice of loops",
        [("      fanout: 2\n", '      fanout: 2\n      loop_bounds: [{expression: All.rank_variables, operator: "==", value: 3}]\n')],
        ["'C'", "no mapping", "Array.X (fanout 2)", "All.rank_variables == 3"],
        'arch.nodes[1] "Array".spatial[0] "X".loop_bounds[0]',
        run="map",
        on="loop_bounds",
    ),
]  # fmt: skip
