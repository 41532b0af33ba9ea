"""Loop nests as code with explicit data movement, derived from a mapping.

- `build`: a specification becomes a Program: check the mapping, declare, lower, tidy up.
- `emit`: emit(): the loop nest of a mapping as code with explicit data movement.
- `fast`: fast C for one product: packed tiles, register tiles, vectors, threads.
- `language`: the small language between mappings and printers.
- `lowering`: a mapping becomes a program.
- `printers`: a program as text of a target language.
"""
