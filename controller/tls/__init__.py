"""Mutual TLS between a controller and the hosts that it measures: a private authority, identities, and the front."""
