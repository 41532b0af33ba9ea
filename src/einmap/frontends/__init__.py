"""Files in: each sub-package turns one kind of file into the raw tree of a specification.

`yaml` is our own format; `files` writes text so that a crash leaves no half file behind;
`store` keeps texts under keys in a directory.
"""
