"""The intermediate representation: types, schemas, values and the program graph.

Imports the standard library and the floor alone. Everything that reads, writes, runs or judges
code meets in this one form.
"""
