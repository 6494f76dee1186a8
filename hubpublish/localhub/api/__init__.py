"""The endpoints, grouped by concern.

Each is a function of the Hub's state, the request and the named pieces of the path, and answers with
a `Response` or raises a `HubHTTPError`. Which path leads to which function stands in ``routes.py``.
"""
