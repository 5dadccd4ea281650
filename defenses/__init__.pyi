from ._prototypes import Prototypes as Prototypes

LEAKBENCH_API: int
