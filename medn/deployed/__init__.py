"""What ships for one layer kind on one device: where a form, its range and its interval become an answer."""
