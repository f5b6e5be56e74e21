"""meteragent whose brokers repeat soon: `python -m tests.integration.impatient collect CONFIG`.

NATS delivers again what was not acknowledged for a second, Kafka gives a dead member's partitions away after
a second, and a collector of a group looks twice a second for what the others have written. With the program
as it is, these are 30 s, 45 s and 10 s, which delay a message and change nothing else.
"""

import sys

from meteragent import cli
from meteragent.collect import kafka, nats, service

if __name__ == "__main__":
    vars(nats)["ACK_WAIT_S"] = 1
    vars(kafka).update(SESSION_MS=1_100, COMMIT_MS=100, IDLE_S=0.5)
    vars(service)["RELOAD_S"] = 0.5
    sys.exit(cli.main(sys.argv[1:]))
