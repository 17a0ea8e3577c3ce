"""Likely mistakes in calls that GDAL would run all the same: one function for each thing to look at, in the `CHECKS` of its module. Pure.

A check looks at one thing and finds nothing where it does not know enough: unknown facts are None or "", and a wrong finding is
worse than none. A finding that refuses is one whose result would be wrong. No message contains text from inside a file.
"""
