"""Hypothesis for all tests: laws are not timed, so that a busy machine breaks none."""

from hypothesis import HealthCheck, settings

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
