"""How few measurements a new device needs, with every device of public tables left out in turn."""
