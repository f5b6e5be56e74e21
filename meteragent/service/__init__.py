"""What the agent, the collector and a crowd's operators share as processes.

process     how a process logs, stops at a signal, forbids dumps of its memory, and tells systemd
health      the socket that answers what its state is, and the watchdog
vitals      the one shape of that answer, as JSON and for Prometheus
boot_clock  the time since the machine's start, by which a jump of the wall clock is recognised
"""
