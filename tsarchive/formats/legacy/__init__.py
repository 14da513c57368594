"""TorchScript archives of torch 1.0 to 1.2, whose modules are described in ``model.json``.

May import the TorchScript format, and what formats may import.
"""
