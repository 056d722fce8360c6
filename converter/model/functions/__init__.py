"""Repeated blocks of a model as functions of ONNX, which hold their nodes once.

A block is a run of nodes that the graph repeats one after the other, with other operands
(`repeats`), and wherever else it stands (`instances`). Each becomes one node, a call, that takes
what differs: parameters, constants, and what was computed before (`calls`). Runtimes put the nodes
back in place of the calls when they load a file, so that the same is computed.
"""
