"""How tensors are called: by memories of ZigZag, and by architectures here."""

from __future__ import annotations

ROLES = {"I1": "input", "I2": "weight", "O": "output"}
"""Names in shipped architectures for the tensors that ZigZag's memories call I1, I2 and O."""
DEFAULT_LINKS = {"O": "O", "I": "I1", "W": "I2"}
"""The memory operand of each letter of an equation, where no mapping says it."""
