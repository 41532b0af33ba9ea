"""Engines that run a plan: `base` is what they share, `local` is the definition of what a plan computes."""
