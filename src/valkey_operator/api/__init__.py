"""The custom resources as types: fields, defaults, validation, conditions, reasons.

What is written here is what people meet: descriptions become `kubectl explain`, rules become the sentences
the API server refuses with. Nothing here talks to anything or looks at a clock.
"""
