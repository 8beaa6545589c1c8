"""Tests of the file system for fsspec, against a real server."""
