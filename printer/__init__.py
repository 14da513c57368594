"""Printing of the program graph as TorchScript source, with source ranges."""
