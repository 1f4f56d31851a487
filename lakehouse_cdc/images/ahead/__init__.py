"""Kernels that were compiled ahead: everywhere but for the processor, which is done once on each machine, in a second.

- `kernels.bc`, `kernels.json`: what `images.build` makes of the sources: LLVM's intermediate code, and what is in it.
- `library`: whether it is of these sources and can be used here; machine code of it, and the places of its kernels.
- `calls`: how Python calls one of them.
"""
