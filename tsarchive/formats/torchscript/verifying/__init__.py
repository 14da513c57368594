"""Verification of TorchScript archives: records, pickles with their tensors, and code."""
