"""The TorchScript format: modules to records, and records to modules."""
