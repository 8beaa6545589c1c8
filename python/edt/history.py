"""Where edt keeps what it learned about a pair of endpoints: `EDT_DATA_DIR`, or `edt` in the user's data directory."""

from edt._edt import agent_file, path_file

__all__ = ["agent_file", "path_file"]
