"""All of it, one after the other: ``python tests/reliability`` takes about an hour, half of it the soak."""

import subprocess
import sys
from pathlib import Path

NAMES = ("chaos", "writes", "kills", "damage", "machine", "soak")


def main() -> None:
    """Run each command; fail where one does."""
    failed = []
    for name in NAMES:
        print(f"{name}: ", flush=True)
        if subprocess.run(
            [sys.executable, Path(__file__).with_name(f"{name}.py")], check=False
        ).returncode:
            failed.append(name)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
