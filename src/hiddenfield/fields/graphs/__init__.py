"""Graph algorithms on fields: elimination, junction trees, regions, cycles, spanning trees."""
