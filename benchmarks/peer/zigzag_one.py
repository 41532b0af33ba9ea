"""Run by zigzag_accesses.py with the peer's interpreter: map layers, print what ZigZag counts as JSON.

Usage: zigzag_one.py WORKLOAD HARDWARE MAPPING; public API of ZigZag 3.9.1 and the results that it returns.
"""

import contextlib
import json
import logging
import os
import sys
import tempfile
from pathlib import Path

workload, hardware, mapping = (str(Path(file).resolve()) for file in sys.argv[1:])

from zigzag.api import get_hardware_performance_zigzag  # noqa: E402
from zigzag.hardware.architecture.memory_port import DataDirection  # noqa: E402


def loops(levels):
    return [[(str(dimension), int(size)) for dimension, size in level] for level in levels]


def moved(level):
    counts = level.attributes["data_elem_move_count"]
    return {direction.name.lower(): float(counts.get(direction)) for direction in DataDirection}


with tempfile.TemporaryDirectory() as scratch, contextlib.redirect_stdout(sys.stderr):
    os.chdir(scratch)
    found = get_hardware_performance_zigzag(
        workload=workload, accelerator=hardware, mapping=mapping, opt="energy", lpf_limit=5,
        dump_folder=scratch, pickle_filename=f"{scratch}/cmes.pickle",
    )[2]  # fmt: skip
    os.chdir("/")
logging.shutdown()
layers = []
for cost, _ in found[0][1]:
    mapped = cost.mapping
    hierarchy = {str(operand): levels for operand, levels in cost.mem_hierarchy_dict.items()}
    links = {str(op): str(cost.layer.memory_operand_links.layer_to_mem_op(op)) for op in mapped.operand_list}
    layers.append(
        {
            "name": str(cost.layer.name),
            "cycles": float(cost.ideal_temporal_cycle),
            "temporal": {
                str(op): loops(levels) for op, levels in mapped.temporal_mapping.mapping_dic_stationary.items()
            },
            "spatial": {str(op): loops(levels) for op, levels in mapped.spatial_mapping.mapping_dict_origin.items()},
            "memories": {op: [str(m.memory_instance.name) for m in hierarchy[link]] for op, link in links.items()},
            "moved": {
                str(op): [moved(level) for level in levels] for op, levels in mapped.unit_mem_data_movement.items()
            },
        }
    )
print(json.dumps(layers))
