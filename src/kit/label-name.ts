/** A label name of Prometheus. Those that begin with `__` are its own. */
export const LABEL_NAME = /^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$/;
