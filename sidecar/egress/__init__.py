"""Other hosts by name: DNS answers, synthetic addresses, and the services that use them."""
