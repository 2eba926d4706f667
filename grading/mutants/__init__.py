"""What each check must tell apart, one module an exercise.

RIGHT: full marks. WRONG: less than full, each for a mistake that students make. STUBS: nothing,
the lesson's own empty stub among them. Each is a list of {name: object} as `check` takes them; an
object of WRONG stands alone where it is about one question of several.
"""
