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
- `spec`: load(): files in, a Spec out.
- `template`: templates: Jinja2's syntax, evaluated by an interpreter of our own.
- `templates`: templates in specification files, rendered before the text is read as YAML.
- `parsing`: text of YAML into a raw tree.
"""
