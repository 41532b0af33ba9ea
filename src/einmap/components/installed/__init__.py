"""Models of installed packages.

- `hwcomponents_classes`: names of classes by the package that has them.
- `hwcomponents`: models of installed hwcomponents packages.
- `installed_caveats`: what installed models are known to get wrong by factors, said beside their numbers.
"""
