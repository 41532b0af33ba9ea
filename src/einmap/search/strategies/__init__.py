"""The strategies, one file each.

- `annealing`: simulated annealing.
- `bayesian`: tree-structured Parzen estimators of Optuna.
- `beam`: beam search over partial mappings, guided by a learned cost model.
- `chains`: Metropolis chains, which `annealing` and `mcmc` are made of.
- `cma_es`: CMA-ES of Optuna.
- `evolutionary`: NSGA-II of Optuna.
- `exhaustive`: every mapping once.
- `learned`: a cost model that is trained on the way chooses what is evaluated.
- `mcmc`: Metropolis chains at a ladder of temperatures.
- `optimal`: the mapper.
- `random_draws`: uniform draws, from all mappings or from the valid ones.
- `sampled`: what samplers of Optuna have in common.
"""
