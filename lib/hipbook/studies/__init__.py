"""What the notebooks do, as functions on plain rows: one module a notebook, and what they share.

Notebooks show; these modules run arms, hold them to the oracle and lay the counts out as tables.
"""
