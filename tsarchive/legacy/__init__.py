"""TorchScript archives of torch 1.0 to 1.2, whose modules stand in ``model.json``."""
