"""LSTM, GRU and RNN: all steps of a layer in one kernel."""
