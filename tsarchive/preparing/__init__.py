"""Programs of ExecuTorch made from programs of torch.export and TorchScript archives."""
