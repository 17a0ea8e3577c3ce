"""Finds likely mistakes in calls that GDAL would run without an error. Pure.

There is one function for each kind of mistake, in the `CHECKS` of its module. A check finds nothing if it lacks facts
(unknown facts are None or ""), because a wrong finding is worse than none. A finding refuses the call if the result
would be wrong. No message contains text from inside a file.
"""
