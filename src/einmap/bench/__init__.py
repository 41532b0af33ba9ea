"""A workload on the processor at hand: its mapping as fast C, compiled, checked, and timed beside libraries.

- `compiler`: a C compiler, and libraries of fast code that are called from Python.
- `values`: whole numbers as inputs, and the values that are to come out.
- `cascades`: several Einsums by NumPy, one after another; attention by PyTorch.
- `job`: what a nest is run on, what is to come out, what runs beside it.
- `libraries`: the same Einsum by libraries that are installed: NumPy, PyTorch.
- `timing`: runs in turn, with caches that hold the tensors and with caches that do not.
- `misses`: bytes that caches miss while the code runs, whatever storage nodes say.
- `predict`: seconds of the code from its nest, with these.
- `result`: what came out, beside what the model says.
- `refine`: tile shapes near those of a mapping that was found.
- `register_tile`: loops around a register tile that code has no room for.
- `spread`: a mapping of one core on several.
- `search`: the mapping that is run: searched, spread, refined.
- `bench`: all of it, for a mapping.
"""
