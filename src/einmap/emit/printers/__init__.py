"""A program as text of a target language.

- `c_runtime`: the rest of a C file: functions that move boxes, the plain loop nest, main.
- `comments`: the text of comments in emitted code.
- `print_c`: C99: buffers as arrays, moves as small functions, and a main that checks itself against a plain loop nest.
- `print_pseudo`: text as a lecture would show it: loops with bounds, parallel loops, mvin and mvout.
- `print_python`: python: one function on NumPy arrays.
- `printer`: what printers of code that runs have in common: statements, counters, operations.
- `text`: what the printers share: conditions, amounts, arithmetic, indented lines.
"""
