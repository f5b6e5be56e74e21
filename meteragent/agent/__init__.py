"""The running agent: `service` starts its streams on one store, and ends them in order."""
