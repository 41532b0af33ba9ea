"""YAML specifications: text -> raw tree, and back.

Read in this order: `load` (files to one tree), `templates` (Jinja2, before YAML; `sandbox` bounds it),
`parse` (YAML events to the tree; `scalars`, `merge` and `syntax` help it), `dump` (the tree to text).
"""
