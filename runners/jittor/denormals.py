"""Denormal numbers as Jittor's kernels need them: taken and stored as zero.

Jittor has g++ compile its kernels with -Ofast, by which a square root of many numbers at once is a product with the
processor's approximate 1 / sqrt(x). That is infinite for a denormal number (below 1.2e-38), and the result is NaN:
RMSProp's mean of squared gradients gets there within some hundred steps for a weight whose gradients stay away, and
then the training is lost. Code so compiled is meant to run with denormals flushed. g++ 12 and older link a start
routine into such libraries that sets it, but only for the thread that happens to load the first of them.
"""

import ctypes
import sys

# MXCSR of x86-64: flush to zero what comes out, take as zero what goes in.
_FLUSH = 0x8000 | 0x0040
# There glibc's fenv_t is 32 bytes, the last 4 of which are MXCSR.
_WORDS, _MXCSR = 8, 7


def flush():
    """Flushes denormals in this thread and in those that it starts from now on."""
    library = ctypes.CDLL("libm.so.6")
    environment = (ctypes.c_uint32 * _WORDS)()
    library.fegetenv(environment)
    environment[_MXCSR] |= _FLUSH
    library.fesetenv(environment)


def is_flushed():
    """Whether this thread computes so: half of the least normal number is then zero."""
    return sys.float_info.min * 0.5 == 0.0
