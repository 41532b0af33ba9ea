"""The commands of the command line, a file each; the function `NAME_command` of each is the command.

- `catalogue`: the commands that list what there is: components, examples, schema.
- `diff`: `einmap diff`: how two mappings, architectures, workloads or specifications differ, and what that costs.
- `emit`: `einmap emit`: the loop nest of a mapping as code with explicit data movement.
- `evaluate`: `einmap evaluate`: what a mapping costs.
- `exchange`: the commands for whole specifications and files of other tools: dump, import and export.
- `explain`: `einmap explain`: why a mapping costs what it does.
- `lab`: the commands of the search lab: search, census and skislope; mappings edited by hand, and run here.
- `map`: `einmap map`: find the best mapping.
- `mesh`: the commands for meshes of processing elements.
- `plan_matmul`: `einmap plan-matmul`: block one matrix product for the memories of a machine.
- `rewriting`: the commands that change a mapping or a workload step by step.
- `show`: `einmap show`: a mapping, an architecture or a workload as a picture.
- `simulate`: `einmap simulate`: run a mapping on real tensors, and hold the model against what happened.
- `sweep`: `einmap sweep`: map or evaluate every point of a grid of architectures.
- `warmup`: `einmap warmup`: compile everything ahead, so that no later command has to.
"""
