"""ExecuTorch programs as modules: methods as graphs, the memory plan, data files."""
