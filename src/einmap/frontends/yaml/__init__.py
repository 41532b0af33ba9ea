"""YAML specifications: text -> raw tree, and back.

Read in this order: `load` (files to one tree), `include` (one file and what it includes; `folders` says
from where, `work` bounds it), `templates` (Jinja2, before YAML; `template` interprets it, `places` keeps its
lines), `parse` (YAML events to the tree; `scalars`, `merge` and `syntax` help it), `dump` (the tree to text).

- `component_tables`: tables of component costs that a specification names.
- `dump`: raw tree -> YAML text that reads back as an equal tree, and reads well.
- `folders`: which files a specification may include: those in the folders of its own files, and below.
- `given`: a partly given mapping from a YAML file.
- `include`: files that include files: by the tags `!include` and `!includedir`, and by the template functions.
- `load`: files to one raw tree: find the files, render, parse, and join their top-level keys.
- `merge`: merge keys: `<<` (shallow), `<<<` (deep), and `!nomerge` values that take part in neither.
- `parse`: YAML text -> raw tree, straight from the parser's events: no object is ever constructed.
- `places`: where the lines of a text come from: a rendered template remembers the lines of its source.
- `scalars`: what an unquoted YAML word means: the YAML 1.2 core rules, with `_` between digits and `0b`.
- `spec`: load(): files in, a Spec out.
- `syntax`: YAML syntax errors in the words of a specification's author: where, what, and what to try.
- `template`: templates: Jinja2's syntax, evaluated by an interpreter of our own.
- `templates`: templates in specification files, rendered before the text is read as YAML.
- `work`: how much one file of a specification may do, with all that it includes: counted, never timed.
"""
