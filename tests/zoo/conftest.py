from pathlib import Path

# Modules without tests register models when they are imported, which must happen only once.
collect_ignore = [
    path.name for path in Path(__file__).parent.glob("*.py") if not path.name.startswith("test_")
]
