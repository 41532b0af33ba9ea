"""What memories hold at one time.

- `occupancy`: space: what each storage node needs, how long it lives, and whether everything fits.
- `sharing`: storage nodes above a split: one buffer for several Einsums, filled once, and what fusion may do.
"""
