"""One engine a file, each run by the interpreter that has it: see benchmarks/peers.py."""
