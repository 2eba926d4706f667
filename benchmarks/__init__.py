"""Reproducible benchmarks: fixed workloads, results with the machine they were measured on."""
