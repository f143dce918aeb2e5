"""Capture: a torch module or an ONNX file becomes the ordered list of its layers, with the bytes between them."""
