"""Passes that answer questions over program graphs, without torch.

The code of an archive is lowered in an open world, by the frontend that decides what runs: what a
pass says of code holds for the code that runs. May import the IR, the operators and the frontend.
"""
