"""Timeloop's YAML files (versions 0.2 to 0.4, and the form with `arch:` before them), and specifications as such files.

Read `read` (files in), `sections` (which key says what, in which version), then one module for each section.

- `architecture`: levels -> memories, fanouts and the compute unit.
- `components`: which model prices a component, and energies of an `ERT`.
- `constraints`: constraints and directives, in every spelling.
- `fanout_limits`: constraints of a fanout -> limits on the spatial loops along X and Y.
- `levels`: an architecture of any version -> a list of levels.
- `mapping`: factors and permutations -> a LoopTree.
- `names`: names that expressions can use.
- `overlaps`: what is counted otherwise where windows overlap.
- `problem`: the problem -> an Einsum, its rank sizes and bits.
- `read`: files -> workload.yaml, architecture.yaml, mapping.yaml and sparsity.yaml.
- `sections`: the sections that files give, joined.
- `sparse`: Sparseloop's densities and `sparse_optimizations` as the key `sparsity`.
- `write`: a specification -> Timeloop's files; an Einsum -> the problem.
- `write_arch`: the way to a compute unit -> nodes of version 0.4.
- `write_mapping`: a LoopTree -> factors and permutations of levels.
"""
