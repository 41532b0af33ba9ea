"""Text of YAML into a raw tree.

- `merge`: merge keys: `<<` (shallow), `<<<` (deep), and `!nomerge` values that take part in neither.
- `parse`: YAML text -> raw tree, straight from the parser's events: no object is ever constructed.
- `places`: where the lines of a text come from: a rendered template remembers the lines of its source.
- `scalars`: what an unquoted YAML word means: the YAML 1.2 core rules, with `_` between digits and `0b`.
- `syntax`: YAML syntax errors in the words of a specification's author: where, what, and what to try.
- `work`: how much one file of a specification may do, with all that it includes: counted, never timed.
"""
