"""What monitoring systems see of a run: each metric declared once, measured once, and given to several outputs."""
