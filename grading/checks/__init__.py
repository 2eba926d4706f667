"""The public checks, one module an exercise. Each has `check(**objects) -> CheckReport`."""
