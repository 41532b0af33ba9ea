"""Which loops may stand above the outermost storage of a tensor: those that compute nothing twice.

A loop over a variable that does not index the tensor would make all of it again in each iteration, one that indexes it
in a sum makes what neighbouring tiles have in common again. Both are left out of the mapspace; the model refuses them
for intermediates (`model/occupancy/sharing.py`).
"""

from __future__ import annotations

from collections.abc import Set

from einmap.arch.constraint import Names
from einmap.einsum.einsum import TensorAccess
from einmap.einsum.spaces.projection import Relevance
from einmap.mapper.mapspace.tile_lattice import is_plain, rank_of


def variables_above(access: TensorAccess, shared: bool, uncut: Set[tuple[str, str]]) -> Names:
    """The rank variables whose loops may stand above the outermost storage of the tensor of `access`.

    `shared`: other Einsums use the tensor too. Then a loop must cut it as it may cut it for them: without strides, and
    not along the ranks in `uncut`, pairs of a tensor and a rank of which the users see different parts. Of a table of
    which rows are looked up any may be asked for, whatever the loops are over the places of the indices.
    """
    variables = frozenset(v for v in access.by_rank if access.relevance(v) is Relevance.FULL)
    if not shared:
        return variables
    return frozenset(v for v in variables if is_plain(access, v) and (access.tensor, rank_of(access, v)) not in uncut)
