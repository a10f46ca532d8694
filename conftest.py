"""Wiring only: firstsound's plugin is found through its entry point, and pytester serves the plugin's own tests."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester"]

# Laws are not timed: a busy machine is no counterexample.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
