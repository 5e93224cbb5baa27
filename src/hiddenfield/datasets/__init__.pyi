from .generate import (
    huckel as huckel,
    huckel_range as huckel_range,
    huckel_shards as huckel_shards,
    library_size as library_size,
    write_huckel as write_huckel,
)
