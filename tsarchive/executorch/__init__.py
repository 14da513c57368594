"""Programs and data of ExecuTorch: .pte, .ptd and .bpte files, read without torch."""
