"""Images of runners: what each is made from, whether one stands and is fresh, building, exporting, importing."""
