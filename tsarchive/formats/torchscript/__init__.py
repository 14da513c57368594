"""The TorchScript format: conversion between modules and records."""
