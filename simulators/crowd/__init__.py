"""The crowd's demo: the total of a street with noise from every home, and with noise from two operators."""
