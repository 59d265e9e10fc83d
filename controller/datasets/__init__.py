"""Datasets: found or downloaded, checked, and prepared once into the arrays that every runner gets."""
