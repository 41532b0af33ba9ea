"""Specifications that are shipped with einmap, as data: `arches/`, `workloads/`, `mappings/` (YAML).

Read `arches/simple.yaml`, `workloads/matmul.yaml` and `mappings/simple_matmul.yaml` first; each file
names its sources, its template parameters and what it goes with. There is no code here.
"""
