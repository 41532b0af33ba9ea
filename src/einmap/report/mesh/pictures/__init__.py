"""Pictures of plans over a mesh, as SVG text.

Read `grid` (a mesh whose PEs are coloured by what they hold), then the pictures made of it.

- `canvas`: shapes, lines and texts at their places, as they are collected for a picture.
- `grid`: a mesh as a grid of PEs: which block of a tensor each PE holds.
- `holders`: who holds what, and what moves when: the steps of a plan one below the other.
- `lanes`: when each step runs: a lane for Einsums and one for each axis of the mesh.
- `pipeline`: the timeline of a pipeline: a row for each device, a box for each action.
"""
