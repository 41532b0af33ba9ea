"""When two costs count as equal, as fractions of them.

The three nest, each a hundred or ten times the one before: sums of a whole cascade are compared the most closely, since
errors of the parts must not add up; points of one Einsum's front less so, and what a bound of one Einsum leaves to gain
must be more than that. Cutoffs of cascades are widened by more than both, so that rounding prunes no optimum.
"""

TIE_OF_SUMS = 1e-12
"""Sums of several Einsums' costs that differ by less count as equal."""
TIE = 1e-10
"""Costs of one Einsum that differ by less count as equal."""
ROUNDING = 1e-9
"""Bounds count as reached by what is above them by no more than this; what exceeds a memory by no more may fit."""
