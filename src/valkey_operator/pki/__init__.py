"""The operator's own certificates: issue them, see what is wrong with them, decide when to replace which.

Time comes in as an argument. Nothing here talks to anything, and no key appears in a text for people.
"""
