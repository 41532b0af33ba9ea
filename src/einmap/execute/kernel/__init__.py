"""The compiled inner loops of the simulator.

- `kernel`: the inner loops: everything below the last storage node of an Einsum, for one visit.
- `kernels`: the kernel as Numba compiles it.
- `warm`: a first call of the simulator's kernel, so that it can be compiled ahead.
"""
