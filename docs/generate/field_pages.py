"""The reference pages of input files: architecture, workload, mapping, options, distribution, cluster, machine."""

from __future__ import annotations

from docs.generate.layout import fields_list, listed, meaning, page, paragraph, table

from einmap.einsum.operation import REDUCTIONS
from einmap.mapper.objective.metrics import METRICS
from einmap.matmul.machine.data_types import DATA_TYPES
from einmap.spec.dialects.dialect import NEEDED_ACTIONS
from einmap.spec.schema import (
    arch,
    cluster,
    distribution,
    latency,
    layout,
    machine,
    mapping,
    options,
    placement,
    sparsity,
    workload,
)

KINDS = paragraph(
    "Of a field: what it may be, its unit, what is taken without it; then what it does. An *expression* is computed, a "
    "*set* selects tensors or rank variables ([expressions](expressions.md)); *older* and *newer* are "
    "[dialects](../formats.md#two-dialects). `einmap schema --field NAME` prints the same."
)

ARCH_SNIPPET = """
```yaml
arch:
  variables: {ROWS: 8}
  nodes:
  - !Memory
    name: Main
    size: inf                                     # bits
    leak_power: 0                                 # W
    area: 0                                       # m^2
    tensors: {keep: All}
    actions:                                      # of one bit: J, and actions/s
    - {name: read, energy: 10e-12, throughput: 64e9}
    - {name: write, energy: 10e-12, throughput: 64e9}
  - !Memory
    name: Buffer
    size: 64 * 1024 * 8
    leak_power: 1e-3
    area: 0.2e-6
    bits_per_action: 64
    total_latency: max(a.n_calls / a.throughput for a in actions)   # a port for reads, and one for writes
    actions:
    - {name: read, energy: 20e-12, throughput: 1e9}
    - {name: write, energy: 25e-12, throughput: 1e9}
  - !Fork
    nodes:
    - !Compute
      name: VectorUnit
      enabled: len(All) < 3
      component_class: Dummy                      # what is not written costs nothing
  - !Container
    name: Array
    spatial:
    - name: rows
      fanout: ROWS
      may_reuse: Inputs
      loop_bounds: [{expression: ~Outputs.rank_variables, operator: ==, value: 1}]    # no sums over rows
  - !Toll
    name: Wires
    direction: up_and_down
    leak_power: 0
    area: 0
    actions: [{name: read, energy: 0.05e-12, throughput: inf}]
  - !Compute
    name: MAC
    enabled: len(All) == 3
    leak_power: 0
    area: 1e-9
    actions: [{name: compute, energy: 0.2e-12, throughput: 1e9}]
```
"""


def architecture() -> str:
    """`arch`."""
    tags = [
        ("`!Memory`", "holds tiles of tensors"),
        ("`!Toll`", "pays for values that pass"),
        ("`!Network`", "pays for the way of values to lanes"),
        ("`!Compute`", "runs Einsums, ends a path"),
        ("`!Container`, older `!Fanout`", "a fanout alone"),
        ("`!Fork`", "a side branch"),
        ("`!Hierarchical`", "a list within the list"),
        ("`!Array`", "memories, networks and tolls spread over lanes"),
    ]
    needed = [(f"`!{tag}`", ", ".join(f"`{name}`" for name in names)) for tag, names in NEEDED_ACTIONS.items()]
    return page(
        "Architecture: the key `arch`",
        paragraph("A tree of nodes, written from the outermost memory in. Each node is the parent of all that follow "
                  "it "
                  "in its list, so the *path* of a compute is what stands before it; a `!Fork` branches off. What is "
                  "written is evaluated for each Einsum, and nodes may refer to nodes above them."),
        KINDS, "## An example", ARCH_SNIPPET,
        "## Nodes", listed(": ", tags),
        "## The key itself", fields_list(arch.ArchInput),
        "## Container", meaning(arch.ContainerInput), "All components have these two fields as well.",
        fields_list(arch.ContainerInput),
        "## Every component", meaning(arch.ComponentInput), fields_list(arch.ComponentInput),
        "## Components that move values", meaning(arch.CarrierInput), fields_list(arch.CarrierInput),
        "## Memories and tolls", meaning(arch.HolderInput), fields_list(arch.HolderInput),
        "## Memory", meaning(arch.MemoryInput), fields_list(arch.MemoryInput),
        "## Memory: what it does at a time", meaning(latency.MemoryTimingInput),
        fields_list(latency.MemoryTimingInput),
        "## Ports: the field `ports`", meaning(latency.PortsInput), fields_list(latency.PortsInput),
        "## Banks: the field `banks`", meaning(latency.BanksInput), fields_list(latency.BanksInput),
        "## Memory: how tensors lie in it", meaning(layout.MemoryLayoutInput), fields_list(layout.MemoryLayoutInput),
        "## Layout: the field `layout`", meaning(layout.LayoutInput), fields_list(layout.LayoutInput),
        "## Toll", meaning(arch.TollInput), fields_list(arch.TollInput),
        "## Network", meaning(arch.NetworkInput), fields_list(arch.NetworkInput),
        "## Compute", meaning(arch.ComputeInput), fields_list(arch.ComputeInput),
        "## Fork", meaning(arch.ForkInput), fields_list(arch.ForkInput),
        "## Hierarchical", meaning(arch.HierarchicalInput), fields_list(arch.HierarchicalInput),
        "## Array", meaning(arch.ArrayInput), "`name` and `spatial` as of a container.", fields_list(arch.ArrayInput),
        "## Actions: elements of `actions`", meaning(arch.ActionInput),
        table(("component", "actions that it needs"), needed), fields_list(arch.ActionInput),
        fields_list(latency.ActionTimingInput),
        "## Dimensions: elements of `spatial`", meaning(placement.SpatialInput), fields_list(placement.SpatialInput),
        "## Constraints on tensors: the field `tensors`", meaning(placement.TensorsInput),
        fields_list(placement.TensorsInput),
        "## Limits: elements of `loop_bounds` and `tile_shape`", meaning(placement.ComparisonInput),
        fields_list(placement.ComparisonInput),
    )  # fmt: skip


WORKLOAD_SNIPPET = """
```yaml
variables: {HEADS: 4}

workload:
  rank_sizes: {M: 32, P: 32, H: HEADS, E: 16, F: E}
  bits_per_value: {All: 8}
  einsums:
  - "QK[h, p, m] = Q[h, p, e] * K[h, m, e]"
  - {einsum: "QM[h, p] = QK[h, p, m]", reduction: max}
  - "QE[h, p, m] = exp(QK[h, p, m] - QM[h, p])"
  - name: AV                                      # the long form
    tensor_accesses:
    - {name: QE, projection: [h, p, m]}
    - {name: V, projection: {H: h, M: m, F: f}, persistent: true}
    - {name: AV, projection: [h, p, f], output: true, bits_per_value: 16}
    operation: QE * V
    renames: {weight: V}

renames:
  einsums:
  - name: default
    tensor_accesses:
      output: Outputs
      weight: Nothing
      input: Inputs - weight
```
"""


def workload_page() -> str:
    """`workload`, `renames`, `variables`."""
    reductions = ", ".join(f"`{name}`" for name in REDUCTIONS)
    return page(
        "Workload: the keys `workload`, `renames` and `variables`",
        paragraph("A cascade of Einsums. Each computes one tensor from others, point by point of its iteration space: "
                  "a "
                  "map expression over the inputs, reduced over the rank variables that the output lacks. Ranks are "
                  "written in capitals (`M`), rank variables in small letters (`m`)."),
        KINDS, "## An example", WORKLOAD_SNIPPET,
        "## The key `workload`", fields_list(workload.WorkloadInput),
        "## Einsums", meaning(workload.EinsumInput), fields_list(workload.EinsumInput),
        paragraph(f"Map expressions are in [map functions](map-functions.md), the reductions are {reductions}. An "
                  "index of the string form is a rank variable (`m`: rank `M`), or `RANK: index` with a sum of rank "
                  "variables times integers (`W: 2*p + r`). A tensor used several times: "
                  "[formats.md](../formats.md#a-tensor-used-several-times)."),
        "## Accesses: elements of `tensor_accesses`", meaning(workload.AccessInput), fields_list(workload.AccessInput),
        "## Bounds of rank variables", paragraph(
            "`iteration_space_shape` takes chains of `<`, `<=`, `=`, `>=`, `>`, joined by `and`, `or`, `not`, with "
            "integers, rank variables of the Einsum, `+`, `-`, `*` and `mod`: `0 <= m < 8 and m mod 2 = 0`. Where the "
            "points are not a hyperrectangle, the box around them is counted, and a note says so."),
        "## The key `renames`", meaning(workload.RenamesInput), fields_list(workload.RenamesInput),
        "### Renames of an Einsum", meaning(workload.EinsumRenamesInput), fields_list(workload.EinsumRenamesInput),
        "### Renames in a list", meaning(workload.RenameInput), fields_list(workload.RenameInput),
        "## The key `variables`", paragraph(
            "A dictionary of values by name, which all expressions may use: `variables: {HEADS: 4, word: 2 * 8}`. "
            "Unquoted text is an expression, quoted text is text; values may use one another in any order, and no "
            "names "
            "of an Einsum. A name that begins with `global_` may not be set again further in."),
    )  # fmt: skip


MAPPING_SNIPPET = """
```yaml
mapping:                                          # of Z[m, n] = A[m, k] * B[k, n]
  nodes:
  - !Storage {tensors: [A, B, Z], component: MainMemory}
  - !Temporal {rank_variable: m, tile_shape: 16}  # 16 rows at a time
  - !Storage {tensors: A, component: GlobalBuffer}
  - !Temporal {rank_variable: n, tile_shape: 16}
  - !Storage {tensors: [B, Z], component: GlobalBuffer}
  - !Temporal {rank_variable: k, tile_shape: 1}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Temporal {rank_variable: n, tile_shape: 1}
  - !Compute {einsum: Z, component: MAC}
```
"""
SPLIT_SNIPPET = """
```yaml
mapping:                                          # of Y[m] = A[m, k] * X[k], Z[n] = B[n, m] * Y[m]
  nodes:
  - !Storage {tensors: [A, X, B, Z], component: MainMemory}
  - !Storage {tensors: [Y], component: GlobalBuffer}          # never leaves the buffer
  - !Sequential
    nodes:
    - !Nested
      nodes:
      - !Temporal {rank_variable: m, tile_shape: 1}
      - !Storage {tensors: [A, X], component: GlobalBuffer}
      - !Temporal {rank_variable: k, tile_shape: 1}
      - !Compute {einsum: Y, component: MAC}
    - !Nested
      nodes:
      - !Temporal {rank_variable: n, tile_shape: 1}
      - !Storage {tensors: [B, Z], component: GlobalBuffer}
      - !Temporal {rank_variable: m, tile_shape: 1}
      - !Compute {einsum: Z, component: MAC}
```
"""
GIVEN_SNIPPET = """
```yaml
given:
  nodes:
  - !Any {}
  - !Storage {tensors: [B], component: GlobalBuffer}          # a tile of B stays in the buffer ...
  - !Temporal {rank_variable: m}                              # ... while a loop over m, right below it, runs
  - !Any {}
  - !Compute {component: MAC}
```
"""


def mapping_page() -> str:
    """`mapping`, and `given`."""
    ignored = ", ".join(f"`!{tag}`" for tag in mapping.IGNORED)
    later = "; ".join(f"`!{tag}`, {what}" for tag, what in mapping.LATER.items())
    return page(
        "Mapping: the key `mapping`",
        paragraph("A LoopTree: nodes from the outside in, each the parent of the next. The loops above a node cut the "
                  "iteration space, and a storage node holds what is left of its tensors. Without a mapping, `einmap "
                  "map` finds one. [What is counted](../semantics.md)."),
        KINDS, "## An example", MAPPING_SNIPPET, "Several Einsums are branches of a split:", SPLIT_SNIPPET,
        "## The key itself", fields_list(mapping.MappingInput),
        "## Every node", meaning(mapping.NodeInput), fields_list(mapping.NodeInput),
        "## Temporal and Spatial", meaning(mapping.LoopInput), fields_list(mapping.LoopInput),
        "### Temporal", meaning(mapping.TemporalInput), fields_list(mapping.TemporalInput),
        "### Spatial", meaning(mapping.SpatialLoopInput), fields_list(mapping.SpatialLoopInput),
        "## Storage and Toll", meaning(mapping.TollNodeInput), fields_list(mapping.TollNodeInput),
        "### Storage", meaning(mapping.StorageInput), fields_list(mapping.StorageInput),
        "## Compute", meaning(mapping.ComputeNodeInput), fields_list(mapping.ComputeNodeInput),
        "## Sequential, Split, Nested", meaning(mapping.SplitInput), fields_list(mapping.SplitInput),
        "## Pipeline", meaning(mapping.PipelineInput), fields_list(mapping.PipelineInput),
        "## Other tags", paragraph(f"{ignored}: written by other tools, left out. Not supported yet: {later}."),
        "## A partly given mapping: the key `given`", paragraph(
            "What a search has to keep (`einmap map --given FILE`, [the mapper](../mapper.md#a-partly-given-mapping)): "
            "for the Einsum that its compute names, or for Einsums by name (`given: {Z: {nodes: [...]}}`). Nodes are "
            "those above; loops may leave out `tile_shape`, and between nodes nothing is inserted but where `!Any {}` "
            "stands."),
        GIVEN_SNIPPET, "### Any", meaning(mapping.AnyInput), fields_list(mapping.AnyInput),
        "### Compute, partly given", meaning(mapping.PartialComputeInput), fields_list(mapping.PartialComputeInput),
    )  # fmt: skip


SPARSITY_SNIPPET = """
```yaml
sparsity:                                         # of Z[m, n] = A[m, k] * B[n, k]
  densities:
    A: 0.1
    B: {structured: [2, 4], along: K}
  formats:
    Main: {A: csr}
    Buffer: {A: [{format: UOP, ranks: [M]}, {format: CP, ranks: [K], bits: 8}], B: bitmask}
  savings:
  - {at: Buffer, do: skip, tensors: B, on: A}     # a read of B is skipped where the value of A is 0
  - {at: MAC, do: gate, on: A | B}
  energies:
    MAC: {gated_compute: 1e-14}
```
"""


def sparsity_page() -> str:
    """`sparsity`."""
    return page(
        "Zeros: the key `sparsity`",
        paragraph("[Sparse tensors](../sparse.md) says what is counted, with an example. Sets of tensors are those of "
                  "each Einsum."),
        KINDS, "## An example", SPARSITY_SNIPPET,
        "## The key itself", meaning(sparsity.SparsityInput), fields_list(sparsity.SparsityInput),
        "## A density", meaning(sparsity.DensityInput), fields_list(sparsity.DensityInput),
        "## A format by name", meaning(sparsity.NamedFormatInput), fields_list(sparsity.NamedFormatInput),
        "## A level of a format", meaning(sparsity.FormatLevelInput), fields_list(sparsity.FormatLevelInput),
        "## A saving", meaning(sparsity.SavingInput), fields_list(sparsity.SavingInput),
        "## Energies", meaning(sparsity.SavingEnergiesInput), fields_list(sparsity.SavingEnergiesInput),
    )  # fmt: skip


OPTIONS_SNIPPET = """
```yaml
mapper: {metrics: energy | latency, max_fused_loops: 1, time_limit: 60}
model: {semantics: exact}
config: {dialect: newer}
```
"""


def options_page() -> str:
    """`mapper`, `model`, `config`."""
    metrics = [
        (", ".join(f"`{name}`" for name in (metric.name, *metric.aliases)), metric.unit or "-", str(metric.flag),
         _METRICS[metric.name])
        for metric in METRICS.values()
    ]  # fmt: skip
    return page(
        "Options: the keys `mapper`, `model` and `config`",
        paragraph("Plain values: nothing here is an expression. `einmap map --option NAME=VALUE` and "
                  "`map_workload(spec, NAME=VALUE)` go before the key `mapper`."),
        "## An example", OPTIONS_SNIPPET,
        "## The key `mapper`", meaning(options.MapperInput), fields_list(options.MapperInput),
        "### Metrics", table(("name", "unit", "flag", "what it is"), metrics),
        "## The key `model`", meaning(options.ModelInput), fields_list(options.ModelInput),
        "## The key `config`", meaning(options.ConfigInput), fields_list(options.ConfigInput),
    )  # fmt: skip


_METRICS = {
    "energy": "of all actions, leakage and refresh",
    "latency": "of one Einsum after another, each as long as its slowest component",
    "energy_delay_product": "energy times latency; what is taken without `metrics`",
    "dynamic_energy": "of all actions",
    "leak_energy": "leakage and refresh of all components during the latency",
    "resource_usage": "how full memories are, each a metric by itself",
}

DISTRIBUTION_SNIPPET = """
```yaml
distribution:                                     # of Z[m, n] = A[m, k] * B[k, n]
  mesh: {x: 2, y: 2}
  placements:
    A: {M: x, K: y}
    B: {K: y}
    Z: {M: x, N: {axes: y, granule: 4}}
  loops:
    Z: {m: x, k: y}
```
"""


def distribution_page() -> str:
    """`distribution`."""
    return page(
        "Distribution: the key `distribution`",
        paragraph("Which parts of which tensors lie on which processing element of a mesh. What each computes and what "
                  "they exchange follows; [distribute.md](../distribute.md) tells how, and `einmap run` runs it. "
                  "Nothing "
                  "here is an expression; a template may compute numbers."),
        "## An example", DISTRIBUTION_SNIPPET,
        "## The key itself", fields_list(distribution.DistributionInput),
        "## Splits: ranks within `placements`", meaning(distribution.RankSplitInput),
        fields_list(distribution.RankSplitInput),
        "## Steps: Einsums", meaning(distribution.ComputeStepInput), fields_list(distribution.ComputeStepInput),
        "## Steps: splits within `loops`", meaning(distribution.LoopSplitInput),
        fields_list(distribution.LoopSplitInput),
        "## Steps: moves", meaning(distribution.MoveStepInput), fields_list(distribution.MoveStepInput),
        "## Entries of `turns`", meaning(distribution.TurnsInput), fields_list(distribution.TurnsInput),
    )  # fmt: skip


CLUSTER_SNIPPET = """
```yaml
cluster:
  pe:
    peak: {bf16: 312e12, fp32: 19.5e12}           # operations/s
    memory: 80 * 2**30                            # bytes
    memory_bandwidth: 2.0e12                      # bytes/s
  axes:
    x: {bandwidth: 300e9, latency: 10e-6, topology: switch, size: 8}
    y: {bandwidth: 25e9, latency: 20e-6, efficiency: {1024: 0.2, 2**20: 0.9}}
```

PEs whose Einsums the mapper costs:

```yaml
cluster:
  pe: {arch: tpu_v4i, memory: 8 * 2**30}          # a file, or a shipped architecture
  axes:
    x: {bandwidth: 50e9, latency: 1e-6, topology: torus}
```
"""


def cluster_page() -> str:
    """`cluster`."""
    return page(
        "Cluster: the key `cluster`",
        paragraph("What processing elements (PEs) can do, and the links along each axis of a mesh: what `einmap plan` "
                  "plans for ([planner.md](../planner.md)). Numbers are *expressions* of numbers alone."),
        "## An example", CLUSTER_SNIPPET,
        "## The key itself", fields_list(cluster.ClusterInput),
        "## A PE: `pe`", meaning(cluster.ProcessingElementInput), fields_list(cluster.ProcessingElementInput),
        "## Kernels: the values of `kernels`", meaning(cluster.KernelInput), fields_list(cluster.KernelInput),
        "## Links: the values of `axes`", meaning(cluster.LinkInput), fields_list(cluster.LinkInput),
    )  # fmt: skip


MACHINE_SNIPPET = """
```yaml
machine:
  grain: {m: 8, k: 8, n: 16}
  levels:                                         # from the outermost in
  - {name: L2, size: 2**20 * 8, load_bandwidth: 8 * 60e9, startup: 20e-9, line: 64 * 8}
  - {name: L1, size: 32 * 2**10 * 8, load_bandwidth: 8 * 180e9, startup: 5e-9, line: 64 * 8}
  compute:
    name: fma
    flops: {fp32: 192e9}                          # flop/s of one unit
    efficiency: {n: {1: 0.1, 16: 0.5, 32: 1}}
```
"""


def machine_page() -> str:
    """`machine`."""
    types = ", ".join(f"`{one.name}` ({one.bits})" for one in DATA_TYPES.values())
    return page(
        "Machine: the key `machine`",
        paragraph("A machine for `einmap plan-matmul`, in a file of its own: memories one inside the other, each "
                  "worker "
                  "with a memory and a link to the level above. [The planner](../matmul-planner.md) tells what it "
                  "makes "
                  "of these numbers. Expressions know no names here but functions."),
        "## An example", MACHINE_SNIPPET,
        "## The key itself", fields_list(machine.MachineInput),
        "## Levels", meaning(machine.LevelInput), fields_list(machine.LevelInput),
        "## Compute units", meaning(machine.ComputeUnitInput), fields_list(machine.ComputeUnitInput),
        paragraph(f"Number formats and their bits: {types}."),
    )  # fmt: skip
