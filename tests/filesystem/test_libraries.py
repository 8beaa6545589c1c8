"""What others open through fsspec: data frames, arrays, tables, task graphs."""

from __future__ import annotations

from pathlib import Path

import dask
import dask.bag
import fsspec
import numpy
import pandas
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
import pytest
import xarray
import zarr

from edt.fsspec import EdtFileSystem

FRAME = pandas.DataFrame({"number": range(5000), "text": [f"row {number}" for number in range(5000)]})


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_pandas_writes_and_reads_frames(url: str, kind: str) -> None:
    path = f"{url}frame.{kind}"
    getattr(FRAME, f"to_{kind}")(path, **({} if kind == "json" else {"index": False}))
    read = getattr(pandas, f"read_{kind}")(path)
    pandas.testing.assert_frame_equal(read, FRAME)


def test_pyarrow_reads_data_sets_and_single_columns(fs: EdtFileSystem, fs_path: str, url: str) -> None:
    table = pyarrow.Table.from_pandas(FRAME)
    for part in range(3):
        pyarrow.parquet.write_table(table, f"{fs_path}/set/{part}.parquet", filesystem=fs, row_group_size=1000)
    arrow = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(fs))
    read = pyarrow.dataset.dataset(f"{fs_path}/set", filesystem=arrow).to_table(columns=["number"])
    assert read.num_rows == 15_000 and read.column_names == ["number"]
    with fsspec.open(f"{url}set/0.parquet") as file:
        assert pyarrow.parquet.ParquetFile(file).read_row_group(3).num_rows == 1000


def test_zarr_writes_and_reads_arrays(url: str, place: Path) -> None:
    values = numpy.arange(90_000, dtype="int32").reshape(300, 300)
    array = zarr.create_array(f"{url}array.zarr", shape=values.shape, chunks=(100, 100), dtype="int32")
    array[:] = values
    assert len([path for path in place.rglob("*") if path.is_file()]) >= 10
    numpy.testing.assert_array_equal(zarr.open_array(f"{url}array.zarr", mode="r")[50:250, 7], values[50:250, 7])


def test_xarray_opens_data_sets(url: str) -> None:
    data = xarray.Dataset({"height": (("x", "y"), numpy.random.default_rng(7).random((50, 60)))})
    data.to_zarr(f"{url}data.zarr")
    xarray.testing.assert_identical(xarray.open_zarr(f"{url}data.zarr").load(), data)


def test_dask_reads_blocks_of_files(fs: EdtFileSystem, fs_path: str, url: str) -> None:
    fs.pipe({f"{fs_path}/part-{part}.txt": f"{part}\n".encode() * 1000 for part in range(4)})
    with dask.config.set(scheduler="threads"):
        lines = dask.bag.read_text(f"{url}part-*.txt", blocksize=700)
        assert lines.map(int).sum().compute() == 6000
