"""Run the built-in demonstration: ``python -m pymc_ksd``."""

from pymc_ksd.report.demonstration import main

if __name__ == "__main__":
    main()
