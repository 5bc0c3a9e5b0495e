"""Every command of the command line, and the one module that wires the rooms together; no
rule or arithmetic belongs here.
"""
