"""The commands of the command line, a file each; the function `NAME_command` of each is the command.

- `components`: `einmap components`: the models of hardware components.
- `diff`: `einmap diff`: how two mappings, architectures, workloads or specifications differ, and what that costs.
- `dump`: `einmap dump`: files in, one specification out, in either dialect.
- `emit`: `einmap emit`: the loop nest of a mapping as code with explicit data movement.
- `evaluate`: `einmap evaluate`: what a mapping costs.
- `examples`: `einmap examples`: the shipped specifications.
- `exchange`: the commands for files of other tools: import and export.
- `explain`: `einmap explain`: why a mapping costs what it does.
- `lab`: the commands of the search lab: search, census and skislope.
- `map`: `einmap map`: find the best mapping.
- `mesh`: the commands for meshes of processing elements.
- `partition`: `einmap partition`: split, flatten and linearise ranks, delay reductions, and print what the workload
  becomes.
- `plan_matmul`: `einmap plan-matmul`: block one matrix product for the memories of a machine.
- `rewrite`: `einmap rewrite`: change a mapping step by step, each step keeping what it computes.
- `schema`: `einmap schema`: the JSON Schema of specification files, for editors.
- `show`: `einmap show`: a mapping, an architecture or a workload as a picture.
- `simulate`: `einmap simulate`: run a mapping on real tensors, and hold the model against what happened.
- `sweep`: `einmap sweep`: map or evaluate every point of a grid of architectures.
- `warmup`: `einmap warmup`: compile everything ahead, so that no later command has to.
"""
