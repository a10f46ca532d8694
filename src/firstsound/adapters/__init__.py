"""Backends: one file each, which only translates between a package and the protocols in `firstsound.stages`."""
