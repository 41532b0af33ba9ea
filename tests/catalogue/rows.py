"""All rows of the catalogue."""

from tests.catalogue import files, hardware, latency, meshes, trees, workload

ROWS = [*files.ROWS, *workload.ROWS, *hardware.ROWS, *trees.ROWS, *meshes.ROWS, *latency.ROWS]
