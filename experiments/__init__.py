"""One short script per published table or picture. No library logic lives here."""
