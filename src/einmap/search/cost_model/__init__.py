"""Predictions of the objective from features of mappings.

- `cost_model`: gradient-boosted trees that predict the objective of a mapping.
- `features`: numbers of a mapping that mean the same for every workload on an architecture.
- `model_file`: cost models in files, saved and loaded.
"""
