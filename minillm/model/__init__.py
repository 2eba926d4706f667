"""The model floor: torch lives here and nowhere below.

Importing this package imports nothing heavy; import the module that you need."""
