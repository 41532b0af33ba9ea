"""Rewrites: from one mapping to another one that computes the same values.

Each function takes a mapping that `mapping.validate` accepts and returns a new one, or raises MappingError with the
place and the reason. They know the workload and the tree; what depends on the hardware (capacities, fanouts, the
hierarchy, lanes that would cross a loop of the same variable) is checked when the result is evaluated.

Read `loops`, `storage`, `branches`; then `values`, what may not be broken, and `places`, how nodes are named.
"""

from einmap.mapping.rewrite.branches import distribute as distribute
from einmap.mapping.rewrite.branches import merge as merge
from einmap.mapping.rewrite.loops import fuse as fuse
from einmap.mapping.rewrite.loops import interchange as interchange
from einmap.mapping.rewrite.loops import split as split
from einmap.mapping.rewrite.loops import tile as tile
from einmap.mapping.rewrite.storage import bypass as bypass
from einmap.mapping.rewrite.storage import hoist as hoist
from einmap.mapping.rewrite.storage import keep as keep
from einmap.mapping.rewrite.storage import sink as sink
from einmap.mapping.rewrite.text import USAGE as USAGE
from einmap.mapping.rewrite.text import rewritten as rewritten

__all__ = [
    "USAGE",
    "bypass",
    "distribute",
    "fuse",
    "hoist",
    "interchange",
    "keep",
    "merge",
    "rewritten",
    "sink",
    "split",
    "tile",
]
