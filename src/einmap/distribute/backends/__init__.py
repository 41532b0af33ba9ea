"""Engines that run a plan.

- `arithmetic`: a local Einsum on the arrays of one PE, for any array module with numpy's names.
- `base`: the interface of engines: a plan and whole arrays in, whole arrays out.
- `check`: real data for a plan, and whether what an engine found is right.
- `checked_extent`: whether the whole result is checked, a sample, or nothing, and why.
- `checked_sample`: values of the outputs that are drawn to be checked, within bounds of time and memory.
- `compare`: predicted communication against that of the program that ran, and what its compiler made of it.
- `engines`: engines by name.
- `hosts`: hosts that run one plan together meet and compare what must be the same.
- `jax`: the engine on JAX: real collectives on a device mesh, in one or several processes and hosts.
- `local`: the engine `local`: one process, a NumPy array for each PE and buffer.
- `observed_collectives`: communication as found in a program, to be held against what a plan predicts.
"""
