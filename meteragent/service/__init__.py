"""What the agent, the collector and a crowd's operators share as processes.

process     how a process starts, logs, and stops at a signal
secrecy     no dumps of its memory
notify      messages to systemd
health      the socket that answers what its state is, and the watchdog
vitals      the one shape of that answer, as JSON and for Prometheus
boot_clock  the time since the machine's start, by which a jump of the wall clock is recognised
"""
