"""Totals of a group of homes, with noise from two operators, as specified in docs/crowd.md.

A home splits its energy m in a slot, in quanta, into a pad P and a share s = m - P modulo 2^64. The pad is
sealed to the helper and the share to the leader. Each operator adds up what it receives, plus one draw of
discrete Laplace noise. The sum of the two results is the energy of all homes plus two draws, and neither
operator can remove the other's draw.

The code in this package uses no clock, network or disk: times, messages and random bytes are arguments. The
only exception is HPKE, whose library draws the ephemeral keys itself. `seal` and `draw`, and the modules that
import one of them (`home`, `machine`, `leader` and `helper`), need the extra `crowd`.
"""
