"""meteragent whose brokers repeat soon: `python -m tests.integration.impatient collect CONFIG`.

NATS delivers again what was not acknowledged for a second, and Kafka gives a dead consumer's partitions away
after a second. The program as it is lets them wait for 30 s and 45 s, which delays a message and changes
nothing else.
"""

import sys

from meteragent import cli
from meteragent.collect import nats

if __name__ == "__main__":
    vars(nats)["ACK_WAIT_S"] = 1
    sys.exit(cli.main(sys.argv[1:]))
