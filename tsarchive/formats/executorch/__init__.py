"""Files of ExecuTorch: programs (.pte), data (.ptd), bundled programs (.bpte)."""
