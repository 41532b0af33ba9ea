"""The error function for arrays of any module with the names of NumPy, which has none of its own."""

from __future__ import annotations

from typing import Any

# Rational approximations of W. J. Cody, Rational Chebyshev approximations for the error function, Mathematics of
# Computation 23, 1969, 631-637: of erf(x)/x in x^2, of exp(x^2) erfc(x) in x, and of what that lacks of 1/(x sqrt(pi)).
_SMALL = (
    (1.85777706184603153e-1, 3.16112374387056560, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3),
)
_MIDDLE = (
    (2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594, 6.61191906371416295e1, 2.98635138197400131e2,
     8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3),
    (1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
     3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3),
)  # fmt: skip
_LARGE = (
    (1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
     1.60837851487422766e-2, 6.58749161529837803e-4),
    (1.0, 2.56852019228982242, 1.87295284992346725, 5.27905102951428412e-1, 6.05183413124413191e-2,
     2.33520497626869185e-3),
)  # fmt: skip
_ONE_OVER_ROOT_PI = 0.56418958354775628695


def erf(xp: Any, x: Any) -> Any:
    """The error function of each number, to a few units in the last place of a double.

    `xp`: a module with the names of NumPy; all three approximations are computed, and the fitting one is taken.
    """
    size = xp.abs(x)
    small = x * _quotient(_SMALL, xp.minimum(size, 0.5) ** 2)
    inner = xp.clip(size, 0.46875, 4.0)
    middle = xp.exp(-inner * inner) * _quotient(_MIDDLE, inner)
    outer = xp.clip(size, 4.0, 6.0)
    square = 1 / (outer * outer)
    large = xp.exp(-outer * outer) / outer * (_ONE_OVER_ROOT_PI - square * _quotient(_LARGE, square))
    rest = xp.sign(x) * (1 - xp.where(size < 4.0, middle, large))
    # a number that is none stays one
    return xp.where(size <= 0.46875, small, rest)


def _quotient(parts: tuple[tuple[float, ...], tuple[float, ...]], x: Any) -> Any:
    """A quotient of polynomials, coefficients of the highest powers first."""
    numerator, denominator = (_polynomial(part, x) for part in parts)
    return numerator / denominator


def _polynomial(coefficients: tuple[float, ...], x: Any) -> Any:
    total = coefficients[0]
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total
