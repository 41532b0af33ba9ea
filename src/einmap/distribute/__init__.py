"""Einsums partitioned over the processing elements (PEs) of a mesh, and run there.

Read `mesh`, `placement`, `collectives` and `plan` (what a plan is), then `moves`, `candidates` and `derive` (how one
is found), `cost` (what it sends), and `backends` (how one is run).
"""
