"""Conversion of torch.jit's modules, types and graphs to ours. Only ``torch_jit`` touches torch.

May import the IR.
"""
