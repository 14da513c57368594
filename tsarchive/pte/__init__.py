"""Programs of ExecuTorch as modules: their methods as graphs, their memory plan, their data."""
