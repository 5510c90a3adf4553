"""The process beside each server: it decides when the server may start, watches it, and carries out orders.

It has no rights in Kubernetes, and works when the operator is away.
"""
