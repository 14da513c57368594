"""PT2 archives, which torch.export writes: programs as JSON, weights as raw records."""
