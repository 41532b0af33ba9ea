"""Energy, area and latency by class, from published figures.

- `analog`: converters and embedded DRAM of compute in memory.
- `cells`: area of SRAM from published 6T cells.
- `dram`: off-chip memories by kind.
- `inputs`: attributes that many models share.
- `logic`: integer arithmetic and small logic.
- `measured_nodes`: arithmetic and caches published for 45 nm and 7 nm.
- `memory`: SRAM, buffers with address generators, register files.
- `network`: wires, routers, links.
- `technology`: scaling between nodes and voltages.
"""
