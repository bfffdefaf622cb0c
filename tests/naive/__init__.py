"""Twins of the policies: the same algorithms written again from their formulas, slowly.

NumPy and SciPy alone, nothing of the library: V is formed and solved with, rewards are kept in
lists, projections find their multiplier by root-finding. A twin and its policy are played side by
side and must agree in estimate, radius and choice.
"""
