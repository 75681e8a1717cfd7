"""Schedules for GPUs: a template for each kind of kernel."""
