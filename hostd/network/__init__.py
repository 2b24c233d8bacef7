"""What is done in a sandbox's network namespace: settings, listeners, rules."""
