"""`betz.multiply` against NumPy: types, strides, files, transposes, and what it refuses."""

import numpy as np
import pytest

import betz


def factors(dtype, rows=70, terms=300, columns=50):
    rng = np.random.default_rng(5)
    return rng.normal(size=(rows, terms)).astype(dtype), rng.normal(size=(terms, columns)).astype(dtype)


def close(got, a, b):
    expected = a.astype(float) @ b.astype(float)
    # Sums of products in another order: about the square root of their number times the rounding.
    tolerance = 2 * np.finfo(got.dtype).eps * np.sqrt(a.shape[1]) * np.abs(expected).max()
    assert got.shape == expected.shape
    assert np.abs(got - expected).max() < tolerance


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_are_numpys_at_any_strides(dtype):
    a, b = factors(dtype)
    for left, right in [
        (a, b),
        (np.asfortranarray(a), b),
        (a, np.asfortranarray(b)),
        (a[::-1, ::2], b[::2]),
        (a[:, ::-3], b[::3, ::-1]),
        (a[1:2], b[:, 3:4]),
    ]:
        got = betz.multiply(left, right)
        assert got.dtype == dtype
        close(got, left, right)
    close(betz.multiply(a.T, b, transpose_a=True), a, b)
    close(betz.multiply(a, b.T, transpose_b=True), a, b)
    close(betz.multiply(a.T, b.T, transpose_a=True, transpose_b=True), a, b)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_product_with_its_own_transpose_is_symmetric_to_the_bit(dtype):
    a, _ = factors(dtype)
    for got, expected in [
        (betz.multiply(a), a @ a.T),
        (betz.multiply(a, a, transpose_b=True), a @ a.T),
        (betz.multiply(a, transpose_a=True), a.T @ a),
        (betz.multiply(a, a, transpose_a=True), a.T @ a),
    ]:
        assert np.array_equal(got, got.T)
        assert np.allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_files_are_read_and_written_in_blocks(tmp_path):
    a, b = factors(np.float32, 200, 500, 150)
    for name, array in (("a.npy", a), ("b.npy", b)):
        np.save(tmp_path / name, array)
    on_disk = [np.load(tmp_path / name, mmap_mode="r") for name in ("a.npy", "b.npy")]
    out = np.lib.format.open_memmap(tmp_path / "c.npy", mode="w+", dtype=np.float32, shape=(200, 150))
    seen = []
    got = betz.multiply(*on_disk, out=out, memory=200_000, progress=lambda *said: seen.append(said))
    assert got is out
    out.flush()
    close(np.load(tmp_path / "c.npy"), a, b)
    # Any strides of `out`, too.
    wide = np.full((150, 400), -1, np.float32)
    betz.multiply(a, b, out=wide.T[::2])
    close(np.ascontiguousarray(wide.T[::2]), a, b)
    assert (wide.T[1::2] == -1).all()


def test_what_cannot_be_multiplied_is_refused_by_name():
    a, b = factors(np.float32)
    unaligned = np.zeros(a.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(a.shape)
    read_only = np.zeros((70, 50), np.float32)
    read_only.flags.writeable = False
    for error, words, call in [
        (TypeError, "a: expected an array of float32 or float64", lambda: betz.multiply(a.astype(int), b)),
        (TypeError, "a: expected an array of float32 or float64 with two dimensions", lambda: betz.multiply(a[0], b)),
        (TypeError, "a: expected an array of float32 or float64", lambda: betz.multiply([[1.0]], b)),
        (TypeError, "a: expected an array of float32 or float64", lambda: betz.multiply(a.astype(">f4"), b)),
        (TypeError, "b: expected an array of float32", lambda: betz.multiply(a, b.astype(float))),
        (ValueError, "70 × 300", lambda: betz.multiply(a, b[:-1])),
        (ValueError, "transpose_b: expected b", lambda: betz.multiply(a, transpose_b=True)),
        (ValueError, "out: expected the product's shape", lambda: betz.multiply(a, b, out=np.zeros((50, 70), np.float32))),
        (TypeError, "out: expected an array of float32", lambda: betz.multiply(a, b, out=np.zeros((70, 50)))),
        (ValueError, "out: expected an array that can be written", lambda: betz.multiply(a, b, out=read_only)),
        (ValueError, "shares no memory", lambda: betz.multiply(a[:, :70], a[:, :70].T, out=a[:, :70])),
        (ValueError, "not aligned", lambda: betz.multiply(unaligned, b)),
        (TypeError, "masked", lambda: betz.multiply(np.ma.masked_less(a, 0), b)),
        (TypeError, "tf32: expected arrays of float32", lambda: betz.multiply(a.astype(float), b.astype(float), tf32=True)),
        (ValueError, "device", lambda: betz.multiply(a, b, device="gpu")),
    ]:
        with pytest.raises(error, match=words):
            call()
    with pytest.raises(ValueError, match="expected"):
        betz.multiply(a[:, :0], b[:0])


def test_ctrl_c_stops_the_work():
    a, b = factors(np.float32, 600, 4000, 600)

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        # More blocks than one look at the progress takes.
        for _ in range(1000):
            betz.multiply(a, b, memory=100_000, progress=stop)
