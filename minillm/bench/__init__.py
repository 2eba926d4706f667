"""Measuring: workloads, the comparison of policies, what machine the figures come from.

Nothing here needs torch; what runs a real model gets it through minillm.llm.
"""
