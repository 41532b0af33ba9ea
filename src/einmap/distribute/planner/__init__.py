"""The best plan for a workload on a cluster, why others lose, and what it is called.

- `best`: the best plan for a request: of the search, or in turns where these need less memory.
- `chosen`: one plan with what it costs, part by part.
- `differences`: why one plan costs more than another, in a sentence.
- `document`: a plan as the key `distribution` of a specification.
- `matching_ends`: layers that follow one another: results that lie as graph inputs do.
- `padding`: sizes that do not divide: PEs whose blocks are empty or short, and moves that send padding.
- `patterns`: names of plans: data, column and row tensor parallel.
- `planner`: the best plan and the best ones that differ from it.
- `planning`: a workload and a request for a plan, and the space of plans.
- `read_cluster`: the key `cluster` of a specification as a cluster.
- `too_little`: why no plan keeps to the memory, and the least change that helps.
- `turned`: plans in turns, which the search does not look at, made of plans that it finds.
- `what_if`: changes of memory or links, one at a time.
"""
