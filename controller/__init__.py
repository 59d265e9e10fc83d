"""The controller: starts runners, sends them identical workloads, and compares what they measured."""

__version__ = "0.1.0"
