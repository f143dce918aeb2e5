"""`medn export onnx`: what a bundle predicts as ONNX models, for programs without Python."""

from __future__ import annotations

from pathlib import Path

from medn.cli.output import Row
from medn.core.atomic import atomic_write
from medn.core.errors import StoreError, UsageError


def export_onnx(bundle: Path, kind: str, out: Path | None, device: str) -> list[Row]:
    """One file for each kind, or for one of them; tells what was written."""
    import medn
    from medn.exporting.onnx_models import onnx_model

    predictor = medn.load(bundle, device or None)
    kinds = [predictor.estimator(kind).kind.name] if kind else list(predictor.kinds)
    if out is not None and out.suffix == ".onnx" and len(kinds) > 1:
        raise UsageError(f"{bundle} predicts {len(kinds)} kinds, each a file: give --kind, or --out a folder")
    written: list[Row] = []
    for name in kinds:
        path = out if out is not None and out.suffix == ".onnx" else (out or Path()) / f"{name}.onnx"
        content = onnx_model(predictor.estimator(name))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(path, content)
        except OSError as error:
            raise StoreError(f"cannot write {path}: {error.strerror or error}") from None
        written.append({"file": str(path), "bytes": len(content)})
    return written
