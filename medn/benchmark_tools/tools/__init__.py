"""One file per benchmark tool."""
