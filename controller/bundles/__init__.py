"""Campaigns as files that travel between machines: written, read, compared, merged. docs/bundles.md is the format."""
