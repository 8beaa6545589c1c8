"""The client of Arrow Flight services behind `edt.flight`; only these modules need PyArrow."""
