"""The strategies, one file each.

- `annealing`: simulated annealing.
- `beam`: beam search over partial mappings, guided by a learned cost model.
- `chains`: Metropolis chains, which `annealing` and `mcmc` are made of.
- `exhaustive`: every mapping once.
- `learned`: a cost model that is trained on the way chooses what is evaluated.
- `mcmc`: Metropolis chains at a ladder of temperatures.
- `optimal`: the mapper.
- `random_draws`: uniform draws, from all mappings or from the valid ones.
- `sampled`: samplers of Optuna: NSGA-II, and tree-structured Parzen estimators.
"""
