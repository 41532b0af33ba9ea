"""The command `einmap`: one file for each command.

- `commands`: the commands by name.
- `diff`: `einmap diff`: how two mappings, architectures, workloads or specifications differ, and what that costs.
- `dump`: `einmap dump`: files in, one specification out, in either dialect.
- `emit`: `einmap emit`: the loop nest of a mapping as code with explicit data movement.
- `evaluate`: `einmap evaluate`: what a mapping costs.
- `examples`: `einmap examples`: the shipped specifications.
- `explain`: `einmap explain`: why a mapping costs what it does.
- `inputs`: what the commands take from the command line: files and names, template values, output paths.
- `main`: the command line: one function for each command, errors as exit status 2.
- `map`: `einmap map`: find the best mapping.
- `ordered`: options whose order across their names matters: `--split K=8 --delay K1 --split M=4`.
- `output`: what the commands print: reports and JSON on stdout, errors and notes on stderr.
- `partition`: `einmap partition`: split, flatten and linearise ranks, delay reductions, and print what the workload
  becomes.
- `plan_matmul`: `einmap plan-matmul`: block one matrix product for the memories of a machine.
- `progress_bar`: how a long search shows itself and is stopped: a progress bar on stderr, and Ctrl-C.
- `rewrite`: `einmap rewrite`: change a mapping step by step, each step keeping what it computes.
- `run`: `einmap run`: distribute real data over a mesh, run, and check.
- `schema`: `einmap schema`: the JSON Schema of specification files, for editors.
- `show`: `einmap show`: a mapping, an architecture or a workload as a picture.
- `simulate`: `einmap simulate`: run a mapping on real tensors, and hold the model against what happened.
- `target`: the file that a command is to write: nothing of the user's is overwritten unasked, and an input never.
- `warmup`: `einmap warmup`: compile everything ahead, so that no later command has to.
"""
