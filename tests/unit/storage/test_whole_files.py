"""Which checkpoint files are whole, by their format alone."""

from __future__ import annotations

import json
import pickle
import struct
import zipfile
from pathlib import Path

import pytest

from ffdl_ops.pod.staging.formats import is_whole, missing_companions


def _zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for number in range(5):
            archive.writestr(f"archive/data/{number}", bytes(4000))


def _safetensors(path: Path) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [10], "data_offsets": [0, 40]}, "__metadata__": {}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(40))


def _npy(path: Path) -> None:
    np = pytest.importorskip("numpy")
    with path.open("wb") as file:
        np.save(file, np.arange(1000, dtype="float32").reshape(10, 100))


def _npz(path: Path) -> None:
    np = pytest.importorskip("numpy")
    with path.open("wb") as file:
        np.savez(file, a=np.zeros(1000), b=np.ones(10))


def _hdf5(path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file["weights"] = [float(number) for number in range(2000)]


def _hdf5_new(path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", libver="latest") as file:
        file["weights"] = [float(number) for number in range(2000)]


def _json(path: Path) -> None:
    path.write_text(json.dumps({"step": 3, "history": list(range(100))}))


def _pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps({"weights": list(range(1000))}))


def _index(path: Path) -> None:
    path.write_bytes(bytes(500) + bytes.fromhex("57fb808b247547db"))


WRITERS = {
    "model.pt": _zip,
    "model.pth": _zip,
    "model.ckpt": _zip,
    "pytorch_model.bin": _zip,
    "model.keras": _zip,
    "model.npz": _npz,
    "model.npy": _npy,
    "model.safetensors": _safetensors,
    "model.weights.h5": _hdf5,
    "model.hdf5": _hdf5_new,
    "state.json": _json,
    "state.pkl": _pickle,
    "ckpt-3.index": _index,
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_finished_file_is_whole_and_every_cut_of_it_is_not(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    content = path.read_bytes()
    assert is_whole(str(path)) is True
    for cut in (0, 1, 3, 9, len(content) // 2, len(content) - 100, len(content) - 1):
        path.write_bytes(content[:cut])
        assert is_whole(str(path)) is False, f"cut at {cut} of {len(content)} bytes"


def test_an_unknown_format_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / "weights.dat").write_bytes(b"1234")
    assert is_whole(str(tmp_path / "weights.dat")) is None


def test_a_file_that_is_gone_is_not_whole(tmp_path: Path) -> None:
    assert is_whole(str(tmp_path / "gone.pt")) is False


def test_tensorflow_shards_need_their_index_and_each_other() -> None:
    whole = {"d/ckpt-1.index", "d/ckpt-1.data-00000-of-00002", "d/ckpt-1.data-00001-of-00002"}
    assert not any(missing_companions(path, whole) for path in whole)
    for missing in whole:
        rest = whole - {missing}
        assert all(missing_companions(path, rest) for path in rest), f"without {missing}"


def test_a_sharded_pytorch_checkpoint_needs_its_metadata() -> None:
    assert missing_companions("step-3/__0_0.distcp", {"step-3/__0_0.distcp"})
    assert not missing_companions("step-3/__0_0.distcp", {"step-3/__0_0.distcp", "step-3/.metadata"})
