"""The verbs, one module each, named as it is typed: ABOUT, arguments, main."""
