"""Small models in the idioms people use, with what every public function has to answer for each."""
