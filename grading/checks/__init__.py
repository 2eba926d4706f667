"""The public checks, one module an exercise. Each has an `EXERCISE` (grading/exercise.py)."""
