"""Hosts that run one plan together: they meet before anything starts, and compare what must be the same on all.

Each host runs the same command. Host 0 listens at the coordinator's address, the others come to it. What they say to
one another is a line of JSON, bounded in size: nothing of it is run or unpickled.

- `address`: the address of host 0, and what is wrong with one.
- `facts`: what must be the same on all hosts, and in words where it is not.
- `guest`: the other hosts; `meet`, which is where to begin.
- `host_zero`: host 0, which waits, compares and tells.
- `lines`: documents over a connection, one line each; what others send is reported, not obeyed.
- `meeting`: what both have in common: the interface, and documents as they come.
"""
