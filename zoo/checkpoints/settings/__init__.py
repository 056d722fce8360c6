"""Read and write the settings files of other libraries."""
