"""Run a mapping on real tensors and count what moves; knows nothing of the analytical model.

Read `result`, `data`, `lanes`, `buffers`, `machine`, `kernel`, then `execute`.
"""
