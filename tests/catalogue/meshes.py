"""Rows 130 to 142: clusters, meshes and distributions."""

from functools import partial

from tests.catalogue import cases

PLANNED = """\
cluster:
  pe:
    peak: {bf16: 312e12, fp32: 19.5e12}
    memory: 80 * 2**30
    memory_bandwidth: inf
    launch: 5e-6
    memory_efficiency: {1e6: 0.3, 1e8: 0.8}
    exposed: 0.2
    kernels: {attention: {launch: 9e-6, efficiency: {1e9: 0.4}}}
    energy_per_operation: 0.5e-12
  axes:
    x:
      bandwidth: 300e9
      latency: 3e-6
      topology: switch
      size: 8
      efficiency:
        1024: 0.1
        2**20: 0.6
      groups: {2: {3e4: 0.7}, 4: {3e4: 0.5}}
    y:
      bandwidth: 25e9
      shared_by: [x]
workload:
  rank_sizes: {M: 4, K: 8, N: 4}
  bits_per_value: {All: 8}
  einsums:
  - "Z[m, n] = A[m, k] * B[k, n]"
distribution:
  mesh:
    x: 2
    y: 4
  placements:
    A: {M: x, K: y}
    B:
      K: [y]
    Z: {M: x}
  loops:
    Z: {m: x, k: y}
  overlap: [Z]
  dtype: float32
"""
"""A good specification; every case is this text with one thing changed."""

STEPPED = (
    PLANNED.replace("  overlap: [Z]\n", "")
    + """\
  steps:
  - {compute: Z, loops: {m: x, k: y}, reads: {A: {M: x, K: y}, B: {K: y}}}
  - {move: Z, by: all_reduce, over: y, before: {M: x, partial: y}, after: {M: x}}
"""
)
"""The same with steps."""

TURNED = """\
workload:
  rank_sizes: {M: 8, K: 8, N: 6}
  bits_per_value: {All: 32}
  einsums: ["T[m, k] = A[m, k] * D[k]", "Z[m, n] = T[m, k] * B[k, n]"]
distribution:
  mesh: {x: 2}
  placements: {A: {M: x}, B: {K: {axes: x, granule: 2}}, Z: {M: x}, D: {on: {x: 0}}}
  loops: {Z: {m: x}, T: {m: x}}
  prefetch: {B: T}
  turns:
  - {einsums: [Z], over: {k: x}}
"""
"""All other fields of a distribution."""

error = partial(cases.error, base=PLANNED, run="plan")
legal = partial(cases.legal, base=PLANNED, run="plan")

PE, X, Y, AT = "cluster.pe", "cluster.axes.x", "cluster.axes.y", "distribution"
NO_OVERLAP = ("    Z: {M: x}\n", "    Z: replicated\n"), ("  overlap: [Z]\n", "")

ROWS = [
    legal(130, "nothing", NO_OVERLAP),
    cases.legal(130, "nothing, with steps", STEPPED, run="plan"),
    error(
        130,
        "rate 0",
        [("      bandwidth: 25e9", "      bandwidth: 0")],
        ["bandwidth must be > 0", "found 0", "300e9", "bytes/s"],
        f"{Y}.bandwidth",
    ),
    error(
        130,
        "rate -1",
        [("      bandwidth: 25e9", "      bandwidth: -1")],
        ["bandwidth must be > 0, found -1"],
        f"{Y}.bandwidth",
    ),
    error(
        130,
        "rate nan",
        [("      bandwidth: 25e9", "      bandwidth: nan")],
        ["bandwidth must be a number, found nan"],
        f"{Y}.bandwidth",
    ),
    error(
        130,
        "rate inf",
        [("      bandwidth: 25e9", "      bandwidth: inf")],
        ["bandwidth must be finite"],
        f"{Y}.bandwidth",
    ),
    error(
        130, "peak 0", [("bf16: 312e12", "bf16: 0")], ["bf16 must be > 0, found 0", "operations/s"], f"{PE}.peak.bf16"
    ),
    error(130, "peak inf", [("bf16: 312e12", "bf16: inf")], ["bf16 must be finite"], f"{PE}.peak.bf16"),
    error(
        130, "memory", [("memory: 80 * 2**30", "memory: 0")], ["memory must be > 0, found 0", "bytes"], f"{PE}.memory"
    ),
    error(130, "memory rate", [("bandwidth: inf", "bandwidth: 0")], ["must be > 0"], f"{PE}.memory_bandwidth"),
    error(
        130,
        "rate 1e-300",
        [("      bandwidth: 25e9", "      bandwidth: 1e-300")],
        ["bandwidth is 1e-300; expected a number from 1e-30 to 1e+30"],
        f"{Y}.bandwidth",
    ),
    error(131, "latency 1e300", [("3e-6", "1e300")], ["latency is 1e+300; expected a number from"], f"{X}.latency"),
    error(131, "latency", [("3e-6", "-3e-6")], ["latency must be >= 0, found -3e-06"], f"{X}.latency"),
    error(131, "latency inf", [("latency: 3e-6", "latency: inf")], ["latency must be finite"], f"{X}.latency"),
    error(131, "energy", [("0.5e-12", "-1")], ["must be >= 0, found -1", "(J)"], f"{PE}.energy_per_operation"),
    error(131, "dispatch", [("launch: 5e-6", "dispatch: inf")], ["dispatch must be finite"], f"{PE}.dispatch"),
    error(
        131,
        "exposed",
        [("exposed: 0.2", "exposed: 1.2")],
        ["exposed is a part, from 0 to 1, found 1.2"],
        f"{PE}.exposed",
    ),
    error(
        131, "a kernel", [("{launch: 9e-6", "{launch: -1")], ["launch must be >= 0"], f"{PE}.kernels.attention.launch"
    ),
    error(
        132,
        "a kernel",
        [("{1e9: 0.4}", "{1e9: 0.4, 1e8: 0.2}")],
        ["sizes of Einsums must rise"],
        f"{PE}.kernels.attention.efficiency.1e8",
    ),
    error(132, "a group", [("{3e4: 0.5}", "{3e4: 5}")], ["above 0 and at most 1, found 5"], f"{X}.groups.4.3e4"),
    error(133, "a kernel", [("attention", "atention")], ["no kind of kernel", "attention"], f"{PE}.kernels.atention"),
    error(133, "a group of one", [("{2: {3e4", "{1: {3e4")], ["more PEs than the one before"], f"{X}.groups"),
    error(131, "launch", [("launch: 5e-6", "launch: -1")], ["launch must be >= 0, found -1", "(s)"], f"{PE}.launch"),
    error(
        132,
        "sizes of Einsums",
        [("1e8: 0.8", "1e5: 0.8")],
        ["sizes of Einsums must rise: 100000 bytes come after 1e+06"],
        f"{PE}.memory_efficiency.1e5",
    ),
    error(132, "above 1", [("0.6", "1.5")], ["above 0 and at most 1, found 1.5"], f"{X}.efficiency.2**20"),
    error(132, "none", [("2**20: 0.6", "2**20: 0")], ["above 0 and at most 1, found 0"], f"{X}.efficiency.2**20"),
    error(
        132,
        "sizes",
        [("2**20", "512")],
        ["sizes of messages must rise: 512 bytes come after 1024"],
        f"{X}.efficiency.512",
    ),
    error(
        132,
        "a size twice",
        [("2**20", "2**10")],
        ["1024 bytes come after 1024", "each size once"],
        f"{X}.efficiency.2**10",
    ),
    error(132, "time", [("2**20: 0.6", "2**11: 0.6")], ["2048 bytes would take less time than those of 1024"]),
    error(132, "size", [("1024: 0.1", "-1: 0.1")], ["size of messages must be >= 0, found -1"], f"{X}.efficiency.-1"),
    error(
        132,
        "a list",
        [("shared_by: [x]", "efficiency: [1, 2]")],
        ["expected a dictionary, found a list"],
        f"{Y}.efficiency",
    ),
    error(133, "type", [("bf16", "bf61")], ["no data type 'bf61'", "did you mean 'bf16'", "fp32"], f"{PE}.peak.bf61"),
    error(
        133,
        "topology",
        [("topology: switch", "topology: swich")],
        ["no topology 'swich'", "did you mean 'switch'", "torus"],
        f"{X}.topology",
    ),
    error(
        134,
        "itself",
        [("shared_by: [x]", "shared_by: [y]")],
        ["'y' is not another axis", "other axes: x"],
        f"{Y}.shared_by[0]",
    ),
    error(134, "unknown", [("shared_by: [x]", "shared_by: [x, z]")], ["'z' is not another axis"], f"{Y}.shared_by[1]"),
    error(134, "twice", [("shared_by: [x]", "shared_by: [x, x]")], ["'x' is named twice"], f"{Y}.shared_by[1]"),
    error(
        135,
        "field",
        [("bandwidth: 25e9", "bandwith: 25e9")],
        ["unknown field 'bandwith' of Link", "did you mean 'bandwidth'"],
        f"{Y}.bandwith",
    ),
    error(
        135, "missing", [("      bandwidth: 25e9\n", "")], ["Link needs the field 'bandwidth'", "300e9"], Y, on=False
    ),
    error(135, "no PE", [("  pe:", "  p:")], ["Cluster needs the field 'pe'"], "cluster", on=False),
    cases.error(
        135,
        "no axes",
        "cluster: {pe: {peak: {bf16: 1}}, axes: {}}\n",
        ["at least one axis"],
        "cluster.axes",
        run="plan",
    ),
    error(
        135, "no peak", [("{bf16: 312e12, fp32: 19.5e12}", "{}")], ["a peak for at least one data type"], f"{PE}.peak"
    ),
    cases.error(
        135, "a word", "cluster: fast\n", ["expected a dictionary with the fields of Cluster"], "cluster", run="plan"
    ),
    error(136, "size", [("size: 8", "size: 0")], ["size must be >= 1, found 0"], f"{X}.size"),
    error(136, "part", [("size: 8", "size: 2.5")], ["size must be an integer, found 2.5"], f"{X}.size"),
    error(
        137,
        "name",
        [("    y:\n      bandwidth", "    y z:\n      bandwidth")],
        ["'y z' is not a name of a mesh axis"],
        "cluster.axes.y z",
        on="bandwidth: 25e9",
    ),
    error(137, "name in a mesh", [("    y: 4", "    2y: 4")], ["'2y' is not a name of a mesh axis"], f"{AT}.mesh.2y"),
    error(138, "0", [("y: 4", "y: 0")], ["mesh axis 'y' has size 0; expected a positive integer"], f"{AT}.mesh.y"),
    error(138, "-4", [("y: 4", "y: -4")], ["mesh axis 'y' has size -4"], f"{AT}.mesh.y"),
    error(138, "2.5", [("y: 4", "y: 2.5")], ["has size 2.5; expected a positive integer"], f"{AT}.mesh.y"),
    error(138, "true", [("y: 4", "y: true")], ["has size True; expected a positive integer"], f"{AT}.mesh.y"),
    error(138, "huge", [("y: 4", "y: " + 30 * "9")], ["at most 4,096 are supported"], f"{AT}.mesh.y"),
    error(
        138,
        "huge in all",
        [("x: 2\n    y: 4", "x: 64\n    y: 65")],
        ["has 4,160 PEs; at most 4,096"],
        f"{AT}.mesh",
        on="x: 64",
    ),
    error(138, "no axis", [("  mesh:\n    x: 2\n    y: 4\n", "  mesh: {}\n")], ["at least one axis"], f"{AT}.mesh"),
    error(139, "tensor", [("Z: {M: x}", "ZZ: {M: x}")], ["no tensor 'ZZ'", "did you mean 'Z'"], f"{AT}.placements.ZZ"),
    error(
        139,
        "rank",
        [("Z: {M: x}", "Z: {MM: x}")],
        ["'Z' has no rank 'MM'", "did you mean 'M'"],
        f"{AT}.placements.Z.MM",
    ),
    error(139, "axis", [("Z: {M: x}", "Z: {M: xx}")], ["no axis 'xx'", "did you mean 'x'"], f"{AT}.placements.Z.M"),
    error(139, "axis in a list", [("K: [y]", "K: [z]")], ["no axis 'z'", "axes: x, y"], f"{AT}.placements.B.K[0]"),
    error(139, "Einsum", [("Z: {m: x, k: y}", "Y: {m: x}")], ["no Einsum 'Y'"], f"{AT}.loops.Y"),
    error(139, "variable", [("Z: {m: x, k: y}", "Z: {l: x}")], ["no rank variable 'l'", "k, m, n"], f"{AT}.loops.Z.l"),
    error(139, "overlap", [("overlap: [Z]", "overlap: [Y]")], ["no Einsum 'Y'"], f"{AT}.overlap[0]"),
    error(140, "ranks", [("Z: {M: x}", "Z: {M: x, N: x}")], ["axis 'x' is used twice"], f"{AT}.placements.Z"),
    error(140, "one rank", [("K: [y]", "K: [y, y]")], ["axis 'y' is used twice"], f"{AT}.placements.B.K"),
    error(140, "case", [("Z: {M: x}", "Z: {M: x, m: y}")], ["a rank of 'Z' is placed twice"], f"{AT}.placements.Z"),
    error(140, "overlap", [("overlap: [Z]", "overlap: [Z, Z]")], ["'Z' is named twice"], f"{AT}.overlap[1]"),
    error(
        141, "a number", [("Z: {M: x}", "Z: 3")], ["expected a dictionary of ranks", "found 3"], f"{AT}.placements.Z"
    ),
    error(
        141, "axes", [("Z: {M: x}", "Z: {M: 3}")], ["expected a mesh axis or a list", "found 3"], f"{AT}.placements.Z.M"
    ),
    error(
        141,
        "a field",
        [("dtype: float32", "dtyp: float32")],
        ["unknown field 'dtyp'", "did you mean 'dtype'"],
        f"{AT}.dtyp",
    ),
    error(
        141,
        "type",
        [("dtype: float32", "dtype: float23")],
        ["float64 or float32, not 'float23'", "did you mean 'float32'"],
        f"{AT}.dtype",
    ),
    error(141, "true", [("dtype: float32", "imperfect: 1")], ["true or false"], f"{AT}.imperfect"),
    error(
        142, "granule", [("Z: {M: x}", "Z: {M: {axes: x, granule: 3}}")], ["no multiple of 3"], f"{AT}.placements.Z.M"
    ),
    error(
        142,
        "blocks",
        [("dtype: float32", "imperfect: false"), ("x: 2\n", "x: 3\n")],
        ["do not divide into 3 equal blocks"],
        on="Z: {M: x}",
    ),
]
