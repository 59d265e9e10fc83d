"""What the machine did while a trial was measured, seen from outside the training process."""
