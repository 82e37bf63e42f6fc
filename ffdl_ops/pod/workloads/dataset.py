"""The digits of scikit-learn as files, for the examples: 1,797 real images of eight by eight pixels."""

from __future__ import annotations

from pathlib import Path

__all__ = ["make_dataset"]

_TEST_EVERY = 5


def make_dataset(directory: Path | str) -> list[Path]:
    """Write the data set: `train.npz` and `test.npz`, each with `images` (n, 8, 8) from 0 to 1 and `labels` (n).

    Every fifth image is for the test. The same bytes come out each time, so that what is keyed by content stays the same.

    :returns: the files' paths.
    """
    import numpy
    from sklearn.datasets import load_digits

    directory = Path(directory)
    digits = load_digits()
    images = (digits.images / 16.0).astype("float32")
    labels = digits.target.astype("int64")
    test = numpy.arange(len(labels)) % _TEST_EVERY == 0
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name, chosen in (("train", ~test), ("test", test)):
        path = directory / f"{name}.npz"
        numpy.savez(path, images=images[chosen], labels=labels[chosen])
        written.append(path)
    return written
