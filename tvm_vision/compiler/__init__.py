"""Relax modules in, executables for one target out: passes, schedules, build."""
