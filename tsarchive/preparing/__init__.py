"""Conversion of torch.export programs and TorchScript archives to ExecuTorch programs."""
