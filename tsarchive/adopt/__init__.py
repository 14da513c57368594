"""torch.jit's modules, types and graphs as ours. ``torch_jit`` alone touches torch."""
