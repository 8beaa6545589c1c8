"""Copies with a progress bar and prints the report: `copy_with_progress.py [SOURCE DESTINATION]`."""

import sys

import edt


def main() -> None:
    source, destination = sys.argv[1:3] if len(sys.argv) > 2 else ("zero:8x32MiB", "null:")
    try:
        report = edt.copy(source, destination, progress=True)
    except edt.TransferFailed as error:
        for failure in error.report.failures:
            print(f"failed: {failure}", file=sys.stderr)
        sys.exit(1)
    except edt.Error as error:
        sys.exit(str(error))
    print(report)


if __name__ == "__main__":
    main()
