"""Modules that every decompiled package may hold, copied as they are."""
