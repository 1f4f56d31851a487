"""Operations on a running pipeline; above source, bronze and silver."""
