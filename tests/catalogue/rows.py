"""All rows of the catalogue, and those that wait for something that einmap does not have yet."""

from tests.catalogue import files, hardware, trees, workload

ROWS = [*files.ROWS, *workload.ROWS, *hardware.ROWS, *trees.ROWS]

NETWORKS = ("99 topology", "99 Fork inside an Array", "99 Compute inside an Array")
