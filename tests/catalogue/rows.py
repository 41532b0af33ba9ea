"""All rows of the catalogue."""

from tests.catalogue import files, hardware, trees, workload

ROWS = [*files.ROWS, *workload.ROWS, *hardware.ROWS, *trees.ROWS]
