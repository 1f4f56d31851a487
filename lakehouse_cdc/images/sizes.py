"""How many bytes `copy` writes at once, whatever the size of the value."""

FEW, SPARE = 16, 64  # from `to` on: at most SPARE
