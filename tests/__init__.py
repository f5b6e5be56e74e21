"""The specification: every test is one sentence of it. (A package, as gmqtt installs one of this name.)"""
