"""A partly given mapping as a constraint of the search.

`pattern` checks what is given for one Einsum, `alignment` finds where its nodes can stand in a dataplacement, `slots`
says what that means for the loops of a gap, `lane_rule` for its lanes, `order` writes the loops of the result in the
given order. `mapper.given_plans` puts it into the plans of the search.
"""
