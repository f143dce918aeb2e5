"""A convolution asked of an exported model by onnxruntime alone: no part of medn is imported.

medn export onnx runs/laptop/laptop.medn --kind conv2d --out conv2d.onnx
python experiments/engines/examples/ask.py conv2d.onnx in_channels=64 out_channels=128 in_h=56 in_w=56 ...
"""

import json
import sys

import numpy as np
import onnxruntime


def main() -> None:
    session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
    said = dict(each.split("=", 1) for each in sys.argv[2:])
    usual = json.loads(session.get_modelmeta().custom_metadata_map["defaults"])
    columns = {}
    for each in session.get_inputs():
        value = said.get(each.name, usual.get(each.name))
        if value is None:
            sys.exit(f"{each.name}: missing")
        is_text = each.type == "tensor(string)"
        columns[each.name] = np.array([value], dtype=object) if is_text else np.array([value], dtype=np.float64)
    names = [each.name for each in session.get_outputs()]
    print(
        json.dumps({name: column.tolist()[0] for name, column in zip(names, session.run(None, columns), strict=True)})
    )


if __name__ == "__main__":
    main()
