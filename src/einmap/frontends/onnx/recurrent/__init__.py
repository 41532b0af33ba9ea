"""Operators of ONNX whose steps follow one another: recurrences over states.

- `layers`: recurrent layers: RNN, GRU and LSTM, as ONNX defines them.
- `linear_attention`: states of keys by values that each position changes.
- `table`: all of them by name.
"""
