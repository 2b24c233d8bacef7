"""What a user reads of the command line: its help, completion, and what took a removed word's
place.
"""
