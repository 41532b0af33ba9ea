"""One design in every form of Timeloop's files: two memories, four processing elements with a register file each."""

PROBLEM = """
problem:
  version: 0.4
  shape:
    name: matmul
    dimensions: [M, K, N]
    data_spaces:
    - {name: A, projection: [[[M]], [[K]]]}
    - {name: B, projection: [[[K]], [[N]]]}
    - {name: Z, projection: [[[M]], [[N]]], read_write: true}
  instance: {M: 4, K: 8, N: 2}
"""
SUBTREES = """
architecture:
  version: 0.2
  subtree:
  - name: System
    attributes: {technology: 45nm}
    local:
    - {name: Main, class: DRAM, attributes: {width: 8, word-bits: 8, type: LPDDR4}}
    subtree:
    - name: Chip
      local:
      - {name: Buffer, class: SRAM, attributes: {depth: 64, width: 8, word-bits: 8, read_bandwidth: 2}}
      subtree:
      - name: PE[0..3]
        local:
        - {name: Reg, class: regfile, attributes: {depth: 16, width: 8, word-bits: 8}}
        - {name: MAC, class: intmac, attributes: {datawidth: 8}}
"""
RANGES = (
    SUBTREES.replace("PE[0..3]", "PE")
    .replace("name: Reg", "name: 'Reg[0..3]'")
    .replace("name: MAC", "name: 'MAC[1..4]'")
)
INSTANCES = (
    SUBTREES.replace("PE[0..3]", "PE")
    .replace("class: regfile, attributes: {", "class: regfile, attributes: {instances: 4, ")
    .replace("class: intmac, attributes: {", "class: intmac, attributes: {instances: 4, ")
    .replace("read_bandwidth: 2", "bandwidth: 4")
)
NODES = """
architecture:
  version: 0.4
  nodes:
  - !Container {name: System, attributes: {technology: 45nm}}
  - !Component {name: Main, class: DRAM, attributes: {width: 8, datawidth: 8, type: LPDDR4}}
  - !Hierarchical
    nodes:
    - !Component
      name: Buffer
      class: SRAM
      attributes: {depth: 64, width: word, datawidth: word, read_bandwidth: 2}
    - !Container {name: PE, spatial: {meshX: 4}}
    - !Parallel
      nodes:
      - !Component {name: Reg, class: regfile, attributes: {depth: 2 * word, width: word, datawidth: word}}
    - !Component {name: MAC, class: intmac, attributes: {datawidth: word}}
variables: {word: 8}
"""
PROCESSED = """
architecture:
  version: '0.4'
  subtree:
  - name: System_top_level
    attributes: {technology: 45nm}
    local:
    - {name: 'Main[1..1]', class: DRAM, attributes: {width: 8, datawidth: 8, type: LPDDR4, meshX: 1}}
    - {name: 'Buffer[1..1]', class: storage, subclass: SRAM, attributes: {depth: 64, width: 8, datawidth: 8, read_bandwidth: 2}}
    - {name: 'inter_PE_spatial[1..1]', class: dummy_storage, attributes: {technology: -1}}
    - {name: 'Reg[1..4]', class: regfile, attributes: {depth: 16, width: 8, datawidth: 8, meshX: 4, meshY: 1}}
    - {name: 'MAC[1..4]', class: intmac, attributes: {datawidth: 8, meshX: 4, meshY: 1}}
"""
OLDEST = """
arch:
  arithmetic: {name: MAC, instances: 4, word-bits: 8, technology: 45nm}
  storage:
  - {name: Reg, entries: 16, instances: 4, word-bits: 8, technology: 45nm}
  - {name: Buffer, entries: 64, instances: 1, word-bits: 8, read_bandwidth: 2, technology: 45nm}
  - {name: Main, technology: DRAM, instances: 1, word-bits: 8}
"""
FORMS = {
    "0.1": OLDEST,
    "0.2": SUBTREES,
    "0.2 with instances": INSTANCES,
    "0.3 with ranges": RANGES,
    "0.4": NODES,
    "processed": PROCESSED,
}
SPATIAL_TARGET = {"0.4": "PE", "processed": "inter_PE_spatial"}
MAPPING = """
mapping:
- {target: Main, type: temporal, factors: M=2 K=1 N=1, permutation: KNM}
- {target: Buffer, type: temporal, factors: "K2, M1", permutation: [K, M, N]}
- {target: SPATIAL, type: spatial, factors: [K=0], permutation: KMN, split: 3}
- {target: Reg, type: temporal, factors: {M: 2, N: 2, K: 1}, permutation: "N,M,K"}
"""


def design(form, mapping=MAPPING):
    """The whole design as one text."""
    return PROBLEM + FORMS[form] + mapping.replace("SPATIAL", SPATIAL_TARGET.get(form, "Buffer"))
