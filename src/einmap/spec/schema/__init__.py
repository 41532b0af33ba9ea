"""Pydantic input models: which fields exist, of which form, with which defaults. Expressions stay text."""
