"""YAML specifications: text -> raw tree, and back.

Read in this order: `load` (files to one tree), `include` (one file and what it includes; `folders` says
from where, `work` bounds it), `templates` (Jinja2, before YAML; `sandbox` confines it, `places` keeps its
lines), `parse` (YAML events to the tree; `scalars`, `merge` and `syntax` help it), `dump` (the tree to text).
"""
