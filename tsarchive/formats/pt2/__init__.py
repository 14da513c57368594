"""PT2 archives, which torch.export writes: programs as JSON, weights as raw records.

May import the TorchScript format, and what formats may import.
"""
