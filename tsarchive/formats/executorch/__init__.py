"""Files of ExecuTorch: programs (.pte), data (.ptd), bundled programs (.bpte).

May import formats that do not import it, and what formats may import.
"""
