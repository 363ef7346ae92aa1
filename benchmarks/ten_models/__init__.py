"""Ten data sets that people know, and what the library says of models of them."""
