"""What the file system of `edt.fsspec` is made of. It needs fsspec, which `edt[fsspec]` brings."""
