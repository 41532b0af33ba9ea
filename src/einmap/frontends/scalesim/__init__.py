"""SCALE-Sim's files: configurations of a systolic array, and topologies.

Read `read` (files in) and `write` (files out), then one module for each part.

- `config`: a configuration, `.cfg` -> the array, its buffers and its dataflow.
- `topology`: layers, `.csv`: convolutions, or products of M, N, K.
- `array`: the section `arch`.
- `folds`: the mapping that the dataflow stands for.
- `read`: files -> workload.yaml, architecture.yaml and mapping.yaml.
- `write`: a specification -> net.csv and run.cfg.
"""
