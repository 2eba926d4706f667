"""What a student sees: live views of a run, their controls, and static figures.

Imports minillm, never the other way round; `widgets.frames`, `widgets.headline` and
`widgets.figures` need no ipywidgets.
"""
