"""tsarchive: TorchScript archives without torch.jit."""
