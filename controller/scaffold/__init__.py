"""What a user adds: new runners from those that exist or from a skeleton, and their locks."""
