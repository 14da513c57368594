"""Verification of files of ExecuTorch: tables, methods and segments."""
