"""What a path of the architecture is searched in: its tile shapes, and dataplacements that admit the same lanes."""

from __future__ import annotations

from dataclasses import dataclass

from einmap.mapper.mapspace.lanes.fanout_table import LaneTable
from einmap.mapper.mapspace.tile_lattice import Lattice
from einmap.mapper.templates.chain_template import ChainTemplate
from einmap.mapper.templates.statistics import MappingCounts


@dataclass(frozen=True)
class Group:
    """Dataplacements that admit the same uses of the fanouts, and how many mappings that makes."""

    plans: list[ChainTemplate]
    lanes: LaneTable
    mapping_counts: MappingCounts


@dataclass(frozen=True)
class TileShapes:
    """The tile shapes that a path is searched with.

    `is_sparse`: tables have rows for a few points only. `has_many`: an axis has more sizes than are listed.
    `is_coarse`: tile shapes are left out, for that reason or since tables of all have no room.
    """

    lattice: Lattice
    is_sparse: bool
    has_many: bool
    is_coarse: bool
