"""Passes that answer questions over program graphs, without torch.

The code of an archive is lowered in an open world, by the frontend that decides what runs: what a
pass says of code holds for the code that runs. Code for another torch is made of graphs as they
run, and what a release reads is told by lowering code with what it has. A program as plain data is
what fingerprints digest. May import the IR, the operators, the frontend and the names that the
printer writes.
"""
