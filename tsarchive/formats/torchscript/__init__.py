"""The TorchScript format: conversion between modules and records.

May import the bridge to torch.jit, analyses, the printer, the table of operators, the cache of
compiled code, and what formats may import.
"""
