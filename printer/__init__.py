"""Printing of the program graph as TorchScript source, with source ranges. May import the IR."""
