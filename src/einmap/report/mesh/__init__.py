"""What plans over a mesh look like.

- `collectives`: what a plan predicted, what its program executes and what its compiler made of it, side by side.
- `planned`: the terminal report of `einmap plan`: what was chosen, what it costs, and why other plans lose.
"""
