"""meteragent whose database must answer soon: `python -m tests.integration.hasty collect CONFIG`.

With the program as it is, a connection on which the database does not answer is dropped after 45 s.
"""

import sys

from meteragent import cli
from meteragent.collect import database

if __name__ == "__main__":
    vars(database)["ANSWER_S"] = 3
    sys.exit(cli.main(sys.argv[1:]))
