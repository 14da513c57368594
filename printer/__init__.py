"""The program graph as source: TorchScript's text, and the ranges that it came from."""
