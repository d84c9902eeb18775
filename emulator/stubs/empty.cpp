// A library without a symbol of its own; what it needs holds them.
