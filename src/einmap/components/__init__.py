"""Energy, area and latency of hardware components, from published figures.

Read `base`, then `registry`, then a model.

- `analog`: converters and embedded DRAM of compute in memory.
- `base`: what a model takes and says, and models that are formulas.
- `cells`: area of SRAM from published 6T cells.
- `dram`: off-chip memories by kind.
- `hwcomponents`: models of installed hwcomponents packages.
- `hwcomponents_classes`: names of classes by the package that has them.
- `installed_caveats`: what installed models are known to get wrong by factors, said beside their numbers.
- `inputs`: attributes that many models share.
- `logic`: integer arithmetic and small logic.
- `measured_nodes`: arithmetic and caches published for 45 nm and 7 nm.
- `memory`: SRAM, buffers with address generators, register files.
- `network`: wires, routers, links.
- `object_model`: models that are Python objects or classes.
- `plausible`: ranges that catch slips of units.
- `reference_tables`: models from energy and area reference tables of Accelergy and Timeloop.
- `registry`: models by name; an estimate is made once for each distinct component.
- `tables`: models that are tables, and those read from CSV.
- `technology`: scaling between nodes and voltages.
"""
