"""The deterministic simulation test: the agent under seeded faults in virtual time, checked after every step.

Theory of operation
    **A seed is a schedule.** `generator` draws the schedule, and `schedule` writes it as text and reads it
    back. It consists of the settings of the network and the streams, and of the messages and faults with
    their times. It determines everything that happens, except the random bytes of sealed messages, so a
    schedule that fails once fails every time.

    **A world runs a schedule.** `world` starts one agent process after another. Each runs `meteragent.agent`
    unchanged, with the simulation's `Environment` (`agent_process`). The event loop (`loop`) is virtual: it
    never waits. When nothing is ready, its time jumps to the next timer.

    **The surroundings of the process are simulated**:

        mqtt.network    connections, in bytes: pieces, delays, cuts, silence
        mqtt.brokers    the brokers of source, sink and receivers; `mqtt.server` is their side of MQTT
        store           the store's thread and device, its folders after a crash, and after a copy is
                        restored; SQLite and its files are real
        surroundings    messages of meters and markets, outages, clocks, a slow or full disk
        traffic         the operators' lists of keys, and other stores, which hold a receiver back
        visitors        a second agent, and a person who acts on receivers

    A crash stops the process at a chosen point; the next process starts from the files that the crash, or a
    power cut at that moment, leaves.

    **The oracle decides what is correct** (`judge` and `model`). The world reports to `oracle` everything
    that the process receives or sends: messages, transactions, publications, confirmations, acknowledgements.
    `windows` and `spec` compute a stream's windows from its setting: slots, limits, one quantum, charges.
    `model` computes, from the definitions, which reading applies at which time. Neither uses the agent's
    terms, its kinds of windows or its descriptors; `stated` checks what descriptors state. `receivers`
    determines which receiver gets which slot, and `actions` what a pause or an end forbids. `expected_store`
    holds the contents that must be on disk. When a crash destroys part of the process's state, the oracle
    discards that part too. A transaction whose COMMIT did not return may be in doubt until the store shows
    whether it is on disk.

    **Invariants are checked at once.** After each step `invariants` compares the agent with the oracle. The
    first difference raises InvariantViolation and ends the world at the step that caused it.

    **The end is quiet.** Faults stop several seconds before the end. By the end everything that was due must
    have been received and acknowledged. One schedule in five runs a second time with different values in its
    readings, unless it limits the store's space; apart from the values and sealed bytes, the agent must
    publish the same messages at the same times (law 4).

    **A failure is shrunk.** If one of many seeds fails, `shrink` leaves out events and settings as long as
    the same invariant is still violated. The command prints the remaining schedule, which `--replay` can run
    again.
"""
