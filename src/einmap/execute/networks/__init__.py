"""Values on their way over networks, and where they begin it.

- `links`: the links between places of a network, found by walking from neighbour to neighbour.
- `routing`: networks: every value that crosses one is routed to its lane, link by link.
- `units`: memories of an array that are several units: every value has a place in one of them, or in several.
- `unit_traffic`: values on their way between the units of an array's memory and the lanes below.
"""
